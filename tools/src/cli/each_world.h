// Shows several runtime directories. A separate process reads each of them (inspect/ask_each.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/message.h"
#include "cli/output.h"
#include "inspect/json.h"
#include "inspect/user_directories.h"

namespace holdfast::cli {

/// One runtime directory as a command shows it. All members are plain values, because they are sent from one process to
/// another.
struct Shown {
  std::string directory{};
  std::string user{};                // the directory's owner
  std::string trouble{};             // why the directory could not be read; empty if it could
  bool is_used = true;               // false: no program has used the directory yet
  std::vector<std::string> names{};  // the requested dictionaries that exist
  std::vector<std::vector<Cell>> rows{};
  std::string text{};  // printed instead of rows
  inspect::Json items = inspect::Json::array();
  int status = exit_status::kYes;
};

/// Calls `look` for each directory in a separate process, and returns the results in the order of the directories. If a
/// process dies or does not answer within `seconds`, the result's `trouble` says so.
std::vector<Shown> look_at_each(const std::vector<inspect::UserDirectory>& directories, double seconds,
                                const std::function<Shown()>& look);

/// The time limit for reading one directory.
inline constexpr double kSecondsEach = 20;

/// Returns whether any program has used one of the directories.
bool is_any_used(const std::vector<Shown>& all) noexcept;
/// Returns the path of the directory, or "N directories" if there are several.
std::string directories_in_words(const std::vector<Shown>& all);
/// Prints which directories could not be read, and why. Returns the worst exit status.
int report_troubles(const std::vector<Shown>& all);
/// Returns a message for each name for which no directory has a dictionary.
std::vector<std::string> missing_names(const std::vector<std::string>& names, const std::vector<Shown>& all);

/// Returns the command's JSON. Its field `list` contains the items of all directories. With `with_users`, each item
/// names its user, and the field `directories` lists the directories.
inspect::Json json_of(const std::vector<Shown>& all, const char* list, bool with_users);
/// Returns a table of all rows. With `with_users`, the user is in the first column for people, but in the last field
/// for programs.
Table table_of(std::vector<Table::Column> columns, const std::vector<Shown>& all, bool with_users,
               const Output& output);

}  // namespace holdfast::cli
