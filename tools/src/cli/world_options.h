// Options of all commands that read or change a runtime directory: the directory, the user, and how to print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/output.h"
#include "inspect/openers.h"
#include "inspect/world.h"

namespace holdfast::cli {

class WorldOptions {
 public:
  enum class Prints { nothing, something, columns };
  /// Adds --dir and --user, for commands that print also --json and --color, and for those with columns --header.
  WorldOptions(Arguments& arguments, Prints prints);

  bool json() const noexcept { return json_; }
  Output output() const { return output_for(color_, header_); }

  /// Switches to the user and chooses the directory. Ends the command on failure. Call it before any function of the
  /// library.
  void apply();
  /// Calls apply(), and opens the world for reading. Returns the world's directory.
  std::string observe();
  /// Calls observe() for a command that shows everything. If no program has used the directory yet, returns nothing,
  /// and says so unless the command prints JSON. A directory of --dir must exist.
  std::optional<std::string> observe_if_used();
  /// Returns whether --dir names a directory that does not exist.
  bool names_missing_directory() const;
  /// Calls apply(), and enters the world. Returns the world's directory.
  std::string enter(inspect::IfMissing if_missing = inspect::IfMissing::refuse);

  /// Lets root check which files processes have open before it switches users. After the switch it could not see
  /// processes that have changed their own user, such as nginx's workers. Call it before apply().
  void want_openers() noexcept { wants_openers_ = true; }
  /// Returns the result of that check. If there was no check, checks the given processes now, for at most `seconds`.
  inspect::Openers openers(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds) const;

 private:
  std::string become();

  std::string directory_;
  std::optional<std::string> user_;
  bool json_ = false;
  bool header_ = false;
  Color color_ = Color::automatic;
  bool wants_openers_ = false;
  std::optional<inspect::Openers> openers_;
};

}  // namespace holdfast::cli
