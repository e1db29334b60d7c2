// A LuaJIT state that finds the modules of this executable.
#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

namespace holdfast::cli {

struct CloseLuaState {
  void operator()(lua_State* state) const noexcept { lua_close(state); }
};
using LuaState = std::unique_ptr<lua_State, CloseLuaState>;

/// Returns an empty state. On failure, prints an error and returns null.
LuaState new_lua_state();

/// Opens the libraries, and sets the paths for modules. On failure, returns false, with a message on the stack.
bool open_libraries(lua_State* state);

/// Pops the text on top of the stack, and returns it.
std::string pop_message(lua_State* state);

}  // namespace holdfast::cli
