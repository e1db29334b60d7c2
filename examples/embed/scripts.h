// Lua scripts, each in a coroutine of its own, in a Lua state. The loop is its host for holdfast.
#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "loop.h"

namespace embed {

class Scripts {
 public:
  /// Throws std::runtime_error, as start() does.
  explicit Scripts(Loop& loop);
  Scripts(const Scripts&) = delete;
  Scripts& operator=(const Scripts&) = delete;

  /// The file runs in a coroutine when the loop does.
  void start(const std::string& path);
  /// How many coroutines have ended with an error.
  int failures() const noexcept { return failures_; }

 private:
  struct CloseState {
    void operator()(lua_State* state) const noexcept { lua_close(state); }
  };

  // Called by Lua. They may raise Lua errors, which skip destructors: nothing that has one lives in these functions,
  // and what may throw is in others, which do not let exceptions out.
  static Scripts& self(lua_State* lua);
  static int open(lua_State* lua);
  static int load(lua_State* lua);
  static int spawn(lua_State* lua);
  static int sleep(lua_State* lua);
  static int wait_fd(lua_State* lua);
  static int is_yieldable(lua_State* lua);
  int suspend(lua_State* coroutine, int descriptor, double seconds);

  void protect(lua_CFunction function, const std::string& argument);
  bool resume_after(lua_State* coroutine, int descriptor, double seconds) noexcept;
  void resume(lua_State* coroutine) noexcept;
  void finish(lua_State* coroutine) noexcept;

  Loop& loop_;
  std::unique_ptr<lua_State, CloseState> state_;
  lua_State* running_ = nullptr;
  bool waits_ = false;  // the coroutine that runs is about to yield, and the loop will resume it
  int failures_ = 0;
};

}  // namespace embed
