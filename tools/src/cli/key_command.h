// Shared by the commands for one key. Reads the dictionary and the key from the command line, and checks for held
// locks.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"
#include "cli/world_options.h"
#include "holdfast.h"

namespace holdfast::cli {

class KeyCommand {
 public:
  /// The first word of the command line is the NAME of a dictionary, and the next is usually a KEY.
  KeyCommand(Arguments& arguments, WorldOptions::Prints prints);

  const WorldOptions& world() const noexcept { return world_; }
  std::string name() const { return arguments_.word(0); }
  /// Returns the word with this number as a key. Ends the command if it is not a valid key.
  std::string key(std::size_t number = 1) const;
  /// Returns the text as typed, or unescaped if --escaped is set.
  std::string plain(const std::string& typed) const;

  enum class Does { look, change };
  /// Opens the dictionary, and enters its world unless the command only reads.
  holdfast_dict* open(Does does);
  /// Opens the dictionary to change it, and creates it with these options if it is missing. Returns null if it is
  /// missing and `creates` is false. As in shdict.open, the longest lifetime counts; if the size differs, says so.
  holdfast_dict* open_or_create(holdfast_options options, bool creates);
  holdfast_dict* dict() const noexcept { return dict_; }

  /// Returns true, and prints why, if a process that may be alive holds the key as a lock or permits, or if that is
  /// unknown.
  bool may_be_held(const std::string& key) const;

 private:
  Arguments& arguments_;
  WorldOptions world_;
  bool escaped_ = false;
  holdfast_dict* dict_ = nullptr;
};

/// Reads a time to live. Returns what is wrong with the text, or an empty string.
std::string read_seconds(const std::string& text, double& seconds);

/// Reads the size of a dictionary. Returns what is wrong with the text, or an empty string.
std::string read_size(const std::string& text, std::uint64_t& bytes);

/// Ends the command with the message of this error code.
[[noreturn]] void fail_by(int code);

}  // namespace holdfast::cli
