#include "run/script.h"

#include <cstdio>
#include <cstdlib>

#include "cli/message.h"
#include "run/lua_state.h"

namespace holdfast::cli {

namespace {

// This is the only function of the module resty.holdfast.channel, which resty.holdfast.worker requires. It is a C
// function, because LuaJIT may hoist a load through an FFI pointer out of a loop, even if the pointer is volatile.

int exiting(lua_State* state) {
  auto* request = static_cast<ExitRequest*>(lua_touserdata(state, lua_upvalueindex(1)));
  lua_pushboolean(state, request->ask() ? 1 : 0);
  return 1;
}

int load_channel(lua_State* state) {
  static_cast<ExitRequest*>(lua_touserdata(state, lua_upvalueindex(1)))->expect_question();
  lua_createtable(state, 0, 1);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_pushcclosure(state, exiting, 1);
  lua_setfield(state, -2, "exiting");
  return 1;
}

void preload_channel(lua_State* state, ExitRequest& request) {
  lua_getglobal(state, "package");
  lua_getfield(state, -1, "preload");
  lua_pushlightuserdata(state, &request);
  lua_pushcclosure(state, load_channel, 1);
  lua_setfield(state, -2, "resty.holdfast.channel");
  lua_pop(state, 2);
}

void set_arguments(lua_State* state, const Script& script) {
  lua_createtable(state, static_cast<int>(script.arguments.size()), 1);
  if (!script.code) {
    lua_pushlstring(state, script.path.data(), script.path.size());
    lua_rawseti(state, -2, 0);
  }
  for (std::size_t i = 0; i < script.arguments.size(); ++i) {
    lua_pushlstring(state, script.arguments[i].data(), script.arguments[i].size());
    lua_rawseti(state, -2, static_cast<int>(i) + 1);
  }
  lua_setglobal(state, "arg");
}

/// Converts the error value to a string and adds a traceback.
int add_traceback(lua_State* state) {
  if (lua_tostring(state, 1) == nullptr) {
    if (luaL_callmeta(state, 1, "__tostring") == 0 || lua_tostring(state, -1) == nullptr)
      lua_pushfstring(state, "(error object is a %s value)", luaL_typename(state, 1));
    lua_replace(state, 1);
    lua_settop(state, 1);
  }
  luaL_traceback(state, state, lua_tostring(state, 1), 1);
  return 1;
}

/// Calls a function. The function and its `count` arguments are on top of the stack; `results` values replace them.
/// Returns whether the call succeeded.
bool call(lua_State* state, int count, int results, const std::string& speaker) {
  const int handler = lua_gettop(state) - count;
  lua_pushcfunction(state, add_traceback);
  lua_insert(state, handler);
  const int error = lua_pcall(state, count, results, handler);
  lua_remove(state, handler);
  if (error != 0) say("{}: {}", speaker, pop_message(state));
  return error == 0;
}

/// Compiles the script. Pushes the compiled script, or the error, onto the stack.
bool load(lua_State* state, const Script& script) {
  if (script.code) return luaL_loadbuffer(state, script.code->data(), script.code->size(), "=-e") == 0;
  return luaL_loadfile(state, script.path.c_str()) == 0;
}

bool run_chunk(lua_State* state, const Script& script, const std::string& speaker) {
  if (!load(state, script)) {
    say("{}: {}", speaker, pop_message(state));
    return false;
  }
  const int count = static_cast<int>(script.arguments.size());
  if (lua_checkstack(state, count + 3) == 0) {
    say("{}: too many arguments: {}", speaker, count);
    return false;
  }
  for (const std::string& argument : script.arguments) lua_pushlstring(state, argument.data(), argument.size());
  return call(state, count, 0, speaker);
}

/// Reads the result of the scheduler's run(), which is true, or nil and the number of failed tasks. The scheduler has
/// already reported each failure.
bool scheduler_succeeded(lua_State* state, const std::string& speaker) {
  const bool ok = lua_toboolean(state, -2) != 0;
  if (!ok) say("{}: {}", speaker, pop_message(state));
  return ok;
}

/// Runs the tasks that the script left in the scheduler. Does nothing if the script has not loaded the scheduler.
bool run_scheduler(lua_State* state, const std::string& speaker) {
  lua_getfield(state, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(state, -1, "resty.holdfast.scheduler");
  if (!lua_istable(state, -1)) return true;
  lua_getfield(state, -1, "run");
  return call(state, 0, 2, speaker) && scheduler_succeeded(state, speaker);
}

bool flush_output(const std::string& speaker) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  say("{}: cannot write to standard output", speaker);
  return false;
}

}  // namespace

bool compiles(const Script& script) {
  const LuaState state = new_lua_state();
  if (state == nullptr) return false;
  if (load(state.get(), script)) return true;
  say("{}", pop_message(state.get()));
  return false;
}

int run_script(const Script& script, const std::string& speaker, ExitRequest request) {
  LuaState state = new_lua_state();
  if (state == nullptr) return EXIT_FAILURE;
  if (!open_libraries(state.get())) {
    say("{}: {}", speaker, pop_message(state.get()));
    return EXIT_FAILURE;
  }
  preload_channel(state.get(), request);
  set_arguments(state.get(), script);
  bool ok = run_chunk(state.get(), script, speaker) && run_scheduler(state.get(), speaker);
  state.reset();
  ok = flush_output(speaker) && ok;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace holdfast::cli
