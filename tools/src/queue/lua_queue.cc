#include "queue/lua_queue.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "cli/message.h"
#include "cli/paths.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

using inspect::Json;

void push(lua_State* state, const Json& value) {
  if (value.is_object()) {
    lua_createtable(state, 0, static_cast<int>(value.size()));
    for (const auto& [key, field] : value.items()) {
      push(state, field);
      lua_setfield(state, -2, key.c_str());
    }
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    lua_pushlstring(state, text.data(), text.size());
  } else if (value.is_number()) {
    lua_pushnumber(state, value.get<double>());
  } else if (value.is_boolean()) {
    lua_pushboolean(state, value.get<bool>() ? 1 : 0);
  } else {
    lua_pushnil(state);
  }
}

Json number(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const bool is_whole = std::floor(value) == value && std::fabs(value) <= kExact;
  return is_whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

std::string text_at(lua_State* state, int index) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(state, index, &size);
  return {text, size};
}

Json read(lua_State* state, int depth = 0);

/// Reads the table on top of the stack: a list if it has an element 1, otherwise an object.
Json read_table(lua_State* state, int depth) {
  const int table = lua_gettop(state);
  const std::size_t length = lua_objlen(state, table);
  Json json = length > 0 ? Json::array() : Json::object();
  for (std::size_t i = 1; i <= length; ++i) {
    lua_rawgeti(state, table, static_cast<int>(i));
    json.push_back(read(state, depth));
  }
  if (length > 0) return json;
  for (lua_pushnil(state); lua_next(state, table) != 0;) {
    Json value = read(state, depth);
    lua_pushvalue(state, -1);  // convert a copy, because lua_next() needs the key unchanged
    json[lua_isstring(state, -1) != 0 ? text_at(state, -1) : luaL_typename(state, -1)] = std::move(value);
    lua_pop(state, 1);
  }
  return json;
}

/// Pops the value on top of the stack, and returns it. A job may be any value, because it comes from another program.
Json read(lua_State* state, int depth) {
  constexpr int kDepthMax = 100;
  Json json;
  switch (lua_type(state, -1)) {
    case LUA_TBOOLEAN:
      json = lua_toboolean(state, -1) != 0;
      break;
    case LUA_TNUMBER:
      json = number(lua_tonumber(state, -1));
      break;
    case LUA_TSTRING:
      json = text_at(state, -1);
      break;
    case LUA_TTABLE:
      if (depth < kDepthMax && lua_checkstack(state, 4) != 0) json = read_table(state, depth + 1);
      break;
    default:
      break;
  }
  lua_pop(state, 1);
  return json;
}

/// Makes the module use the library that this process has loaded, because a second copy would enter the world as a
/// second process. Commands that this process starts get the original environment.
class OwnLibrary {
 public:
  OwnLibrary() {
    if (const char* const before = std::getenv(kVariable)) before_ = before;
    if (const std::string library = loaded_library(); !library.empty()) ::setenv(kVariable, library.c_str(), 1);
  }
  OwnLibrary(const OwnLibrary&) = delete;
  OwnLibrary& operator=(const OwnLibrary&) = delete;
  ~OwnLibrary() { before_ ? ::setenv(kVariable, before_->c_str(), 1) : ::unsetenv(kVariable); }

 private:
  static constexpr const char* kVariable = "HOLDFAST_LIB";
  std::optional<std::string> before_;
};

}  // namespace

LuaQueue::LuaQueue() : state_(new_lua_state()) {
  const OwnLibrary own;
  if (state_ == nullptr) throw Exit{exit_status::kTrouble};
  const bool is_ready = open_libraries(state_.get()) &&
                        luaL_loadbuffer(state_.get(), kQueueScript.data(), kQueueScript.size(), "=queue.lua") == 0 &&
                        lua_pcall(state_.get(), 0, 1, 0) == 0;
  if (!is_ready) fail("cannot load the module resty.holdfast.queue: {}", pop_message(state_.get()));
}

LuaQueue::Answer LuaQueue::call(const char* function, const Json& options) {
  lua_State* const state = state_.get();
  lua_getfield(state, 1, function);
  push(state, options);
  if (lua_pcall(state, 1, 2, 0) != 0) fail("{}", pop_message(state));
  const Json error = read(state);
  return {read(state), error.is_string() ? error.get<std::string>() : std::string()};
}

Json LuaQueue::get(const char* function, const Json& options) {
  Answer answer = call(function, options);
  if (answer.value.is_null()) fail("{}", answer.error);
  return std::move(answer.value);
}

std::string job_as_bytes(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return inspect::number_in_words(value.get<double>());
  return inspect::to_text(value, inspect::Layout::line);
}

}  // namespace holdfast::cli
