// Shows several runtime directories, each of which a process of its own reads (inspect/ask_each.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/message.h"
#include "cli/output.h"
#include "inspect/json.h"
#include "inspect/user_directories.h"

namespace holdfast::cli {

/// One runtime directory as a command shows it. Plain values, because a process sends them to another.
struct Shown {
  std::string directory{};
  std::string user{};                // the directory's owner
  std::string trouble{};             // why the directory could not be read; empty if it could
  bool is_used = true;               // false: no program has used the directory yet
  std::vector<std::string> names{};  // the dictionaries that were asked for and exist
  std::vector<std::vector<Cell>> rows{};
  std::string text{};  // instead of rows
  inspect::Json items = inspect::Json::array();
  int status = exit_status::kYes;
};

/// Calls `look` for each directory, and returns the results in the same order. If a process does not answer within
/// `seconds`, or dies, its result has a trouble.
std::vector<Shown> look_at_each(const std::vector<inspect::UserDirectory>& directories, double seconds,
                                const std::function<Shown()>& look);

/// Seconds within which a directory must be read.
inline constexpr double kSecondsEach = 20;

/// Returns whether any program has used one of the directories.
bool is_any_used(const std::vector<Shown>& all) noexcept;
/// Returns the path of the directory, or the number of directories if there are several.
std::string directories_in_words(const std::vector<Shown>& all);
/// Prints which directories could not be read, and why. Returns the worst exit status.
int report_troubles(const std::vector<Shown>& all);
/// Returns a message for each name that no directory has.
std::vector<std::string> missing_names(const std::vector<std::string>& names, const std::vector<Shown>& all);

/// Returns the command's JSON. Its field `list` has the items of all directories. With users, each has its user, and
/// the field `directories` has the directories.
inspect::Json json_of(const std::vector<Shown>& all, const char* list, bool with_users);
/// Returns a table of all rows. With users, people get them in the first column, and programs in the last field.
Table table_of(std::vector<Table::Column> columns, const std::vector<Shown>& all, bool with_users,
               const Output& output);

}  // namespace holdfast::cli
