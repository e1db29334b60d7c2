// Reads the dictionary and the key from the command line, for all commands that work on one key, and checks whether the
// key may be held as a lock.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"
#include "cli/world_options.h"
#include "holdfast.h"

namespace holdfast::cli {

class KeyCommand {
 public:
  /// The first word of the command line is the NAME of a dictionary, and the next word is usually a KEY.
  KeyCommand(Arguments& arguments, WorldOptions::Prints prints);

  const WorldOptions& world() const noexcept { return world_; }
  std::string name() const { return arguments_.word(0); }
  /// Returns the word with this number as a key. Ends the command if the word is not a valid key.
  std::string key(std::size_t number = 1) const;
  /// Returns the text as it was typed, or unescaped if --escaped was given.
  std::string plain(const std::string& typed) const;

  enum class Does { look, change };
  /// Opens the dictionary. Enters the world (inspect/world.h) unless the command only reads.
  holdfast_dict* open(Does does);
  /// Opens the dictionary to change it. If it is missing, creates it with these options, or returns null if `creates`
  /// is false. An existing dictionary gets the longer of the two lifetimes, as in shdict.open. If the existing
  /// dictionary's size differs, prints a message.
  holdfast_dict* open_or_create(holdfast_options options, bool creates);
  holdfast_dict* dict() const noexcept { return dict_; }

  /// Returns true, and prints the reason, if a process that may be alive holds the key as a lock or as permits, or if
  /// the holder is unknown.
  bool may_be_held(const std::string& key) const;

 private:
  Arguments& arguments_;
  WorldOptions world_;
  bool escaped_ = false;
  holdfast_dict* dict_ = nullptr;
};

/// Reads a time to live. Returns an error message, or an empty string on success.
std::string read_seconds(const std::string& text, double& seconds);

/// Reads the size of a dictionary. Returns an error message, or an empty string on success.
std::string read_size(const std::string& text, std::uint64_t& bytes);

/// Ends the command with the message for this error code.
[[noreturn]] void fail_by(int code);

}  // namespace holdfast::cli
