#include "run/lua_state.h"

#include <cstdlib>

#include "cli/message.h"
#include "cli/paths.h"

namespace holdfast::cli {

namespace {

int open_all_libraries(lua_State* state) {
  luaL_openlibs(state);
  return 0;
}

/// Returns the default value of package.path or package.cpath, which applies if no environment variable is set.
std::string package_field(lua_State* state, const char* name) {
  lua_getglobal(state, "package");
  lua_getfield(state, -1, name);
  const char* text = lua_tostring(state, -1);
  std::string value = text == nullptr ? "" : text;
  lua_pop(state, 2);
  return value;
}

void set_package_field(lua_State* state, const char* name, const std::string& value) {
  lua_getglobal(state, "package");
  lua_pushlstring(state, value.data(), value.size());
  lua_setfield(state, -2, name);
  lua_pop(state, 1);
}

void set_search_paths(lua_State* state) {
  const SearchPaths own = search_paths();
  set_package_field(state, "path", join_path(::secure_getenv("LUA_PATH"), own.lua, package_field(state, "path")));
  set_package_field(state, "cpath",
                    join_path(::secure_getenv("LUA_CPATH"), own.library, package_field(state, "cpath")));
}

}  // namespace

LuaState new_lua_state() {
  LuaState state(luaL_newstate());
  if (state == nullptr) say("cannot create a Lua state: out of memory");
  return state;
}

bool open_libraries(lua_State* state) {
  // Makes the package library ignore the paths in the environment, so that only its defaults apply.
  lua_pushboolean(state, 1);
  lua_setfield(state, LUA_REGISTRYINDEX, "LUA_NOENV");
  const bool opened = lua_cpcall(state, open_all_libraries, nullptr) == 0;
  lua_pushnil(state);
  lua_setfield(state, LUA_REGISTRYINDEX, "LUA_NOENV");
  if (opened) set_search_paths(state);
  return opened;
}

std::string pop_message(lua_State* state) {
  std::size_t length = 0;
  const char* text = lua_tolstring(state, -1, &length);
  std::string message = text == nullptr ? "(no message)" : std::string(text, length);
  lua_pop(state, 1);
  return message;
}

}  // namespace holdfast::cli
