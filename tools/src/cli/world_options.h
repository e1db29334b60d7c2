// The options of all commands that read or change a runtime directory. They choose the directory, the user and the form
// of the output.
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
  /// Adds --dir and --user. Commands that print also get --json and --color, and commands that print columns get
  /// --header.
  WorldOptions(Arguments& arguments, Prints prints);

  bool json() const noexcept { return json_; }
  Output output() const { return output_for(color_, header_); }

  /// Switches to the user and chooses the directory. Ends the command on failure. Call this before any function of the
  /// library.
  void apply();
  /// Calls apply(), and opens the world for reading. Returns the world's directory.
  std::string observe();
  /// Calls observe() for a command that shows these dictionaries, or all dictionaries if there are no names. If there
  /// are no names and no program has used the directory yet, returns nothing, and prints a message unless the command
  /// prints JSON. A directory given with --dir must exist.
  std::optional<std::string> observe_if_used(const std::vector<std::string>& names = {});
  /// Returns whether --dir names a directory that does not exist.
  bool names_missing_directory() const;

  /// Returns whether the command shows the runtime directories of all users, because root runs it and neither an option
  /// nor the environment names a directory.
  bool shows_all() const;
  /// Returns whether this process was started by look() to read one of these directories.
  bool is_one_of_many() const noexcept { return is_one_of_many_; }
  /// Limits the command to one directory. Call this for a command that changes something.
  void show_one() noexcept { is_one_ = true; }
  /// Calls the function `look`, which opens the world and prints only messages. If shows_all() is true, calls it for
  /// each directory in a separate process, which must end within `seconds`. In this case, this process does not open
  /// any world.
  std::vector<Shown> look(double seconds, const std::function<Shown()>& look);
  /// Returns the names of dictionaries that exist in the directory. If there is only one directory, returns all names,
  /// so that a missing dictionary is an error.
  std::vector<std::string> names_in(const std::string& directory, const std::vector<std::string>& names) const;
  /// Returns a sentence about directories that this command would show only to root, or an empty string if there are
  /// none.
  std::string hidden() const;
  static constexpr const char* kSeeHidden = "run this command as root to see all";
  /// Prints the sentence from hidden() if people read the output. Also prints a message if there are several
  /// directories and no program has used any of them.
  void print_rest(const std::vector<Shown>& all) const;

  /// Calls apply(), and enters the world. Returns the world's directory.
  std::string enter(inspect::IfMissing if_missing = inspect::IfMissing::refuse);

  /// If the command runs as root, makes apply() check which files processes have open, before it switches users. After
  /// the switch, processes that have changed their own user, such as nginx's workers, could not be inspected. Call this
  /// before apply().
  void want_openers() noexcept { wants_openers_ = true; }
  /// Returns the result of the check that want_openers() requested. If there was no check, inspects the given processes
  /// now, for at most `seconds`.
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
