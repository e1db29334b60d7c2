// Options of all commands that read or change a runtime directory: the directory, the user, and how to print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/each_world.h"
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
  /// Calls observe() for a command that shows these dictionaries, or everything. If it shows everything and no program
  /// has used the directory yet, returns nothing, and says so unless the command prints JSON. A directory of --dir must
  /// exist.
  std::optional<std::string> observe_if_used(const std::vector<std::string>& names = {});
  /// Returns whether --dir names a directory that does not exist.
  bool names_missing_directory() const;

  /// Returns whether the command shows the runtime directories of all users: root runs it, and nothing names one.
  bool shows_all() const;
  /// Returns whether this process looks at one of them, for look().
  bool is_one_of_many() const noexcept { return is_one_of_many_; }
  /// Limits the command to one directory, in order to change something.
  void show_one() noexcept { is_one_ = true; }
  /// Calls `look`, which opens the world and prints only messages. With shows_all(), calls it for each directory, in
  /// processes of their own, and allows each `seconds`. Then neither this process nor `look` has a world afterwards.
  std::vector<Shown> look(double seconds, const std::function<Shown()>& look);
  /// Returns those of the names that are dictionaries of the directory. If there is only one directory, returns all,
  /// so that a missing one is an error.
  std::vector<std::string> names_in(const std::string& directory, const std::vector<std::string>& names) const;
  /// Returns a sentence if there are directories that this command would show to root; otherwise nothing.
  std::string hidden() const;
  static constexpr const char* kSeeHidden = "run this command as root to see all";
  /// Prints that sentence for people, and a message if no program has used any of several directories.
  void print_rest(const std::vector<Shown>& all) const;

  /// Calls apply(), and enters the world. Returns the world's directory.
  std::string enter(inspect::IfMissing if_missing = inspect::IfMissing::refuse);

  /// Lets root check which files processes have open before it switches users. After the switch it could not see
  /// processes that have changed their own user, such as nginx's workers. Call it before apply().
  void want_openers() noexcept { wants_openers_ = true; }
  /// Returns the result of that check. If there was no check, checks the given processes now, for at most `seconds`.
  inspect::Openers openers(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds) const;

 private:
  std::string become();
  bool names_none() const;

  std::string directory_;
  std::optional<std::string> user_;
  bool json_ = false;
  bool header_ = false;
  Color color_ = Color::automatic;
  bool is_one_ = false;
  bool has_asked_each_ = false;
  bool is_one_of_many_ = false;
  bool wants_openers_ = false;
  std::optional<inspect::Openers> openers_;
};

}  // namespace holdfast::cli
