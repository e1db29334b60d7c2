// Runs Lua scripts concurrently, in one loop. While one script waits for a lock, the other scripts run.
//
//   embed [--dict NAME=SIZE]... SCRIPT...

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <holdfast.hpp>
#include <lua.hpp>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

struct Wait {
  lua_State* coroutine;
  int descriptor;  // -1: none
  double deadline;
};

std::vector<Wait> waits;       // what the loop waits for; if this is empty, the loop ends
lua_State* running = nullptr;  // the coroutine that the loop has resumed
bool suspended = false;        // the coroutine is about to yield, and is in `waits`
int failures = 0;

// Lua calls the following functions. A Lua error skips destructors, so these functions have no objects with
// destructors. No exception leaves the functions.

/// Resumes the coroutine when the descriptor is readable or after `seconds`. Returns false if there is no memory.
bool resume_later(lua_State* coroutine, int descriptor, double seconds) noexcept try {
  waits.push_back({coroutine, descriptor, holdfast_now() + (seconds > 0 ? seconds : 0)});
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

int suspend(lua_State* lua, int descriptor, double seconds) {
  if (running != lua || lua_isyieldable(lua) == 0) return luaL_error(lua, "cannot wait here");
  suspended = resume_later(lua, descriptor, seconds);
  return suspended ? lua_yield(lua, 0) : luaL_error(lua, "no memory");
}

int sleep_for(lua_State* lua) { return suspend(lua, -1, luaL_checknumber(lua, 1)); }
int wait_fd(lua_State* lua) {
  return suspend(lua, static_cast<int>(luaL_checkinteger(lua, 1)), luaL_checknumber(lua, 2));
}
int is_yieldable(lua_State* lua) {
  lua_pushboolean(lua, running == lua && lua_isyieldable(lua) != 0);
  lua_pushstring(lua, running == lua ? "Lua was called from C" : "a coroutine that this program does not resume");
  return 2;
}

/// spawn(function) runs the function in a coroutine. The coroutine remains in Lua's registry until it ends, because
/// otherwise it would be collected.
int spawn(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  lua_State* const coroutine = lua_newthread(lua);
  lua_pushvalue(lua, -1);
  lua_pushboolean(lua, 1);
  lua_rawset(lua, LUA_REGISTRYINDEX);
  lua_pushvalue(lua, 1);
  lua_xmove(lua, coroutine, 1);
  return resume_later(coroutine, -1, 0) ? 0 : luaL_error(lua, "no memory");
}

/// Gives scripts the functions of this program, registers this host with holdfast, and runs the files in coroutines.
int begin(lua_State* lua) {
  static const luaL_Reg functions[] = {
      {"spawn", spawn}, {"sleep", sleep_for}, {"wait_fd", wait_fd}, {"is_yieldable", is_yieldable}, {nullptr, nullptr}};
  static const char script[] = R"(
    require("resty.holdfast.host").set_host {
        name = "embed", sleep = sleep, wait_fd = wait_fd, is_yieldable = is_yieldable }
    for _, path in ipairs { ... } do spawn(assert(loadfile(path))) end
  )";
  const int count = lua_gettop(lua);
  luaL_openlibs(lua);
  luaL_register(lua, "_G", functions);
  lua_pop(lua, 1);
  if (luaL_loadstring(lua, script) != 0) return lua_error(lua);
  lua_insert(lua, 1);
  lua_call(lua, count, 0);
  return 0;
}

void resume(lua_State* coroutine) {
  running = coroutine;
  suspended = false;
  const bool begins = lua_status(coroutine) == 0;  // the function is still on the stack
  const int status = lua_resume(coroutine, begins ? 0 : lua_gettop(coroutine));
  running = nullptr;
  // A script that yields by itself lets the other scripts run.
  if (status == LUA_YIELD && (suspended || resume_later(coroutine, -1, 0))) return;
  if (status != 0) {
    ++failures;
    luaL_traceback(coroutine, coroutine, lua_tostring(coroutine, -1), 0);
    std::fprintf(stderr, "embed: %s\n", lua_tostring(coroutine, -1));
  }
  lua_pushthread(coroutine);
  lua_pushnil(coroutine);
  lua_rawset(coroutine, LUA_REGISTRYINDEX);
}

/// Sleeps until some coroutines are due, and resumes them.
void run_once() {
  std::vector<pollfd> polled;
  double first = holdfast_now() + 3600;
  for (const Wait& wait : waits) {
    polled.push_back({wait.descriptor, POLLIN, 0});  // poll ignores descriptors of -1
    first = std::min(first, wait.deadline);
  }
  const int left_ms = static_cast<int>(std::ceil(std::max(first - holdfast_now(), 0.0) * 1000));
  if (::poll(polled.data(), polled.size(), left_ms) < 0 && errno != EINTR)
    throw std::system_error(errno, std::generic_category(), "poll");
  const std::vector<Wait> waited = std::exchange(waits, {});
  for (std::size_t i = 0; i < waited.size(); ++i) {
    const bool is_due = polled[i].revents != 0 || waited[i].deadline <= holdfast_now();
    is_due ? resume(waited[i].coroutine) : waits.push_back(waited[i]);
  }
}

/// Opens a dictionary. Scripts find it by its name, as other programs do.
void open_dictionary(std::string_view declaration) {
  const std::size_t equals = declaration.find('=');
  if (equals == std::string_view::npos) throw std::runtime_error("--dict: NAME=SIZE expected");
  const holdfast_options options{.size = holdfast::parse_size(declaration.substr(equals + 1)).value()};
  holdfast::dictionary::open(declaration.substr(0, equals), options).value();  // remains open while the process lives
}

}  // namespace

int main(int count, char** values) try {
  const std::unique_ptr<lua_State, decltype(&lua_close)> lua(luaL_newstate(), &lua_close);
  lua_pushcfunction(lua.get(), begin);
  for (int i = 1; i < count; ++i) {
    const bool is_dict = std::string_view(values[i]) == "--dict" && i + 1 < count;
    is_dict ? open_dictionary(values[++i]) : lua_pushstring(lua.get(), values[i]);
  }
  const int scripts = lua_gettop(lua.get()) - 1;
  if (scripts == 0) return std::fputs("Usage: embed [--dict NAME=SIZE]... SCRIPT...\n", stderr), 2;
  if (lua_pcall(lua.get(), scripts, 0, 0) != 0) throw std::runtime_error(lua_tostring(lua.get(), -1));
  while (!waits.empty()) run_once();
  return failures == 0 ? 0 : 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "embed: %s\n", failure.what());
  return 1;
}
