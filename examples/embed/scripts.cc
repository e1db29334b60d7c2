#include "scripts.h"

#include <cstdio>
#include <stdexcept>

namespace embed {

Scripts::Scripts(Loop& loop) : loop_(loop), state_(luaL_newstate()) {
  if (state_ == nullptr) throw std::runtime_error("no memory for a Lua state");
  protect(&open, "");
}

void Scripts::start(const std::string& path) { protect(&load, path); }

/// Calls function(self, argument). Whatever Lua raises becomes an exception of C++.
void Scripts::protect(lua_CFunction function, const std::string& argument) {
  lua_State* const lua = state_.get();
  lua_pushlightuserdata(lua, this);
  lua_pushcclosure(lua, function, 1);
  lua_pushstring(lua, argument.c_str());
  if (lua_pcall(lua, 1, 0, 0) == 0) return;
  const std::string message = lua_isstring(lua, -1) != 0 ? lua_tostring(lua, -1) : "an error without a message";
  lua_pop(lua, 1);
  throw std::runtime_error(message);
}

Scripts& Scripts::self(lua_State* lua) { return *static_cast<Scripts*>(lua_touserdata(lua, lua_upvalueindex(1))); }

/// Opens the libraries, gives scripts the functions of this program, and tells holdfast of the host.
int Scripts::open(lua_State* lua) {
  luaL_openlibs(lua);

  constexpr luaL_Reg kGlobals[] = {{"spawn", &spawn}, {"sleep", &sleep}, {nullptr, nullptr}};
  lua_pushvalue(lua, LUA_GLOBALSINDEX);
  lua_pushvalue(lua, lua_upvalueindex(1));
  luaL_openlib(lua, nullptr, kGlobals, 1);

  constexpr luaL_Reg kHost[] = {
      {"sleep", &sleep}, {"wait_fd", &wait_fd}, {"is_yieldable", &is_yieldable}, {nullptr, nullptr}};
  lua_getglobal(lua, "require");
  lua_pushliteral(lua, "resty.holdfast.host");
  lua_call(lua, 1, 1);
  lua_getfield(lua, -1, "set_host");
  lua_newtable(lua);
  lua_pushliteral(lua, "embed");
  lua_setfield(lua, -2, "name");
  lua_pushvalue(lua, lua_upvalueindex(1));
  luaL_openlib(lua, nullptr, kHost, 1);
  lua_call(lua, 1, 0);
  return 0;
}

int Scripts::load(lua_State* lua) {
  if (luaL_loadfile(lua, lua_tostring(lua, 1)) != 0) return lua_error(lua);
  lua_replace(lua, 1);
  return spawn(lua);
}

/// spawn(function): runs it in a coroutine, from the loop.
int Scripts::spawn(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  lua_State* const coroutine = lua_newthread(lua);
  // In the registry until it ends, so that it is not collected.
  lua_pushvalue(lua, -1);
  lua_pushboolean(lua, 1);
  lua_rawset(lua, LUA_REGISTRYINDEX);
  lua_pushvalue(lua, 1);
  lua_xmove(lua, coroutine, 1);
  if (!self(lua).resume_after(coroutine, Loop::kNoDescriptor, 0)) return luaL_error(lua, "no memory");
  return 0;
}

/// sleep(seconds)
int Scripts::sleep(lua_State* lua) { return self(lua).suspend(lua, Loop::kNoDescriptor, luaL_checknumber(lua, 1)); }

/// wait_fd(descriptor, seconds)
int Scripts::wait_fd(lua_State* lua) {
  const auto descriptor = static_cast<int>(luaL_checkinteger(lua, 1));
  return self(lua).suspend(lua, descriptor, luaL_checknumber(lua, 2));
}

/// is_yieldable(): true, or false and the reason.
int Scripts::is_yieldable(lua_State* lua) {
  lua_pushboolean(lua, 0);
  if (self(lua).running_ != lua) {
    lua_pushliteral(lua, "a coroutine that this program does not resume");
  } else if (lua_isyieldable(lua) == 0) {
    lua_pushliteral(lua, "Lua was called from C");
  } else {
    lua_pushboolean(lua, 1);
    return 1;
  }
  return 2;
}

int Scripts::suspend(lua_State* coroutine, int descriptor, double seconds) {
  if (running_ != coroutine || lua_isyieldable(coroutine) == 0) return luaL_error(coroutine, "cannot wait here");
  if (!resume_after(coroutine, descriptor, seconds)) return luaL_error(coroutine, "no memory");
  waits_ = true;
  return lua_yield(coroutine, 0);
}

bool Scripts::resume_after(lua_State* coroutine, int descriptor, double seconds) noexcept {
  try {
    loop_.wait(descriptor, seconds, [this, coroutine] { resume(coroutine); });
    return true;
  } catch (...) {
    return false;
  }
}

void Scripts::resume(lua_State* coroutine) noexcept {
  running_ = coroutine;
  waits_ = false;
  const bool begins = lua_status(coroutine) == 0;  // and has its function on its stack
  const int status = lua_resume(coroutine, begins ? 0 : lua_gettop(coroutine));
  running_ = nullptr;
  if (status == LUA_YIELD && waits_) return;
  // A script that yields by itself lets the others run.
  if (status == LUA_YIELD && resume_after(coroutine, Loop::kNoDescriptor, 0)) return;
  if (status != 0) {
    ++failures_;
    const char* const message = lua_tostring(coroutine, -1);
    luaL_traceback(coroutine, coroutine, message != nullptr ? message : "an error without a message", 0);
    std::fprintf(stderr, "embed: %s\n", lua_tostring(coroutine, -1));
  }
  finish(coroutine);
}

void Scripts::finish(lua_State* coroutine) noexcept {
  lua_settop(coroutine, 0);
  lua_pushthread(coroutine);
  lua_pushnil(coroutine);
  lua_rawset(coroutine, LUA_REGISTRYINDEX);
}

}  // namespace embed
