// A queue of resty.holdfast.queue. The module runs in a Lua state in this process, where queue.lua calls it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "inspect/json.h"
#include "run/lua_state.h"

namespace holdfast::cli {

extern const std::string_view kQueueScript;  // queue.lua

class LuaQueue {
 public:
  /// Loads the module. Ends the command on failure. Construct this object after the process has switched to its user
  /// and, if it only reads, has become an observer.
  LuaQueue();

  struct Answer {
    inspect::Json value;  // null on failure
    std::string error;
  };
  /// Calls a function of queue.lua. Ends the command if the function raises an error.
  Answer call(const char* function, const inspect::Json& options = inspect::Json::object());
  /// Does the same as call(), but ends the command on failure.
  inspect::Json get(const char* function, const inspect::Json& options = inspect::Json::object());

 private:
  LuaState state_;
};

/// Returns a job in the form in which a command gets it: a string as its bytes, a table as JSON, and any other value as
/// text.
std::string job_as_bytes(const inspect::Json& value);

}  // namespace holdfast::cli
