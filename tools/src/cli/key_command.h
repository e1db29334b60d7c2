// What the commands on one key share: the dictionary and the key on the command line, and what has to be refused.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "cli/world_options.h"
#include "holdfast.h"

namespace holdfast::cli {

class KeyCommand {
 public:
  /// The first word of the command line is the NAME of a dictionary, and the next is rather a KEY.
  KeyCommand(Arguments& arguments, WorldOptions::Prints prints);

  const WorldOptions& world() const noexcept { return world_; }
  std::string name() const { return arguments_.word(0); }
  /// The word of that number as a key. Ends the command if it is none.
  std::string key(std::size_t number = 1) const;
  /// The text as it was typed, or what it stands for with --escaped.
  std::string plain(const std::string& typed) const;

  enum class Does { look, change };
  /// Opens the dictionary, in a world that it looks at or enters.
  holdfast_dict* open(Does does);
  holdfast_dict* dict() const noexcept { return dict_; }

  /// Whether a process that may live holds the key as a lock or as permits, or that cannot be told: says so, then.
  bool may_be_held(const std::string& key) const;

 private:
  Arguments& arguments_;
  WorldOptions world_;
  bool escaped_ = false;
  holdfast_dict* dict_ = nullptr;
};

/// Reads how long a key lives. Returns what is wrong with the text, or nothing.
std::string read_seconds(const std::string& text, double& seconds);

/// Ends the command because of the outcome of a call.
[[noreturn]] void fail_by(int code);

}  // namespace holdfast::cli
