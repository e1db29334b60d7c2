// What the commands on one key share: the dictionary and the key on the command line, and what has to be refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/world_options.h"
#include "holdfast.h"

namespace holdfast::cli {

class KeyCommand {
 public:
  /// The first word of the command line is the NAME of a dictionary.
  KeyCommand(const Subcommand& command, WorldOptions::Prints prints);

  Arguments& arguments() noexcept { return arguments_; }
  const Arguments& arguments() const noexcept { return arguments_; }
  const WorldOptions& world() const noexcept { return world_; }

  enum class Does { look, change };
  /// Reads the command line and opens the dictionary. The exit status if that ends it.
  std::optional<int> begin(const Words& given, Does does);
  std::optional<int> read_line(const Words& given) { return arguments_.parse(given); }
  std::optional<int> open(Does does);

  holdfast_dict* dict() const noexcept { return dict_; }
  std::string name() const { return arguments_.word(0); }
  /// The word of that number as a key. The exit status, after a sentence, if it is none.
  std::optional<int> read_key(std::size_t number, std::string& key) const;
  /// The text as it was typed, or what it stands for with --escaped; nothing after a sentence.
  std::optional<std::string> plain(const std::string& typed) const;

  /// Whether a process that may live holds the key as a lock or as permits, or that cannot be told: says so, then.
  bool may_be_held(const std::string& key) const;

  /// Says why a call failed, and gives the exit status.
  int fail(int code) const;
  /// The same where the answer is no.
  int no(const std::string& sentence) const;

 private:
  Arguments arguments_;
  WorldOptions world_;
  bool escaped_ = false;
  holdfast_dict* dict_ = nullptr;
};

}  // namespace holdfast::cli
