// Reads the queue's name and options, and opens the queue, for all commands that work on one queue.
#pragma once

#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/world_options.h"
#include "queue/lua_queue.h"

namespace holdfast::cli {

class QueueCommand {
 public:
  /// The first word of the command line is the NAME of a queue.
  QueueCommand(Arguments& arguments, WorldOptions::Prints prints) : arguments_(arguments), world_(arguments, prints) {}

  /// Adds the options that create a missing queue.
  void may_create();
  /// Adds the option for the number of attempts after which a job is dead.
  void may_take();
  /// Call this after the command line has been read.
  void check() const;

  /// Returns the options for open() in queue.lua. A command may add more options.
  inspect::Json& options() noexcept { return options_; }
  WorldOptions& world() noexcept { return world_; }
  std::string name() const { return arguments_.word(0); }

  /// Enters the world, and opens the queue to change it. If the command must switch to the user earlier, call
  /// world().apply() first.
  LuaQueue& open();
  /// Opens the queue for reading.
  LuaQueue& observe();

 private:
  LuaQueue& load();

  Arguments& arguments_;
  WorldOptions world_;
  inspect::Json options_ = inspect::Json::object();
  bool creates_ = false;
  std::optional<LuaQueue> queue_;
};

/// Adds an option with a number of seconds, which is passed to queue.lua as `field`.
void add_seconds(Arguments& arguments, const char* names, const char* text, inspect::Json& options, const char* field);
/// Adds the option for the time limit of a wait.
void add_wait(Arguments& arguments, inspect::Json& options);

/// Returns the job's name for people and scripts: NUMBER, or NUMBER/ATTEMPTS if the job was taken.
std::string job_in_words(const inspect::Json& job);

}  // namespace holdfast::cli
