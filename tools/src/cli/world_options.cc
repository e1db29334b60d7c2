#include "cli/world_options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cli/message.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "inspect/user_access.h"
#include "inspect/user_directories.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

/// The time limit for a scan of all processes on the machine.
constexpr double kScanSeconds = 5;

std::string owner_of(const std::string& directory) {
  struct stat info {};
  return ::stat(directory.c_str(), &info) == 0 ? inspect::name_of_user(info.st_uid) : "";
}

}  // namespace

WorldOptions::WorldOptions(Arguments& arguments, Prints prints) {
  arguments.add_value("--dir", "PATH", "Use this runtime directory; default: $HOLDFAST_DIR, else the user's own",
                      [this](const std::string& path) {
                        directory_ = path;
                        return path.empty() ? std::string("bad directory \"\": expected a path") : std::string();
                      });
  arguments.add_value("--user", "NAME", "Switch to this user first, to use its runtime directory; needs root",
                      [this](const std::string& name) {
                        user_ = name;
                        return std::string();
                      });
  if (prints == Prints::nothing) return;
  arguments.add_flag("--json", json_, "Print JSON");
  arguments.add_optional("--color", "WHEN", "always",
                         "Print columns in colour: always, auto (default) or never; --color alone means always",
                         [this](const std::string& when) { return read_color(when, color_); });
  if (prints == Prints::columns) arguments.add_flag("--header", header_, "Print columns with titles, as on a terminal");
}

std::string WorldOptions::become() {
  return become_user(*user_, [this](uid_t uid) {
    if (wants_openers_)
      openers_ = inspect::Openers::read(inspect::directory_to_be(uid), inspect::all_pids(), kScanSeconds);
  });
}

inspect::Openers WorldOptions::openers(const std::string& directory, const std::vector<std::uint32_t>& pids,
                                       double seconds) const {
  if (!openers_) {
    const inspect::RootAgain sees_all_maps;
    return inspect::Openers::read(directory, pids, seconds);
  }
  inspect::Openers openers = *openers_;
  openers.limit_to(pids);
  return openers;
}

void WorldOptions::apply() {
  if (!directory_.empty()) ::setenv("HOLDFAST_DIR", directory_.c_str(), 1);
  if (const std::string wrong = user_ ? become() : ""; !wrong.empty()) fail("{}", wrong);
  // Other processes may truncate files while this process reads them.
  static_cast<void>(holdfast_guard_sigbus());
}

std::string WorldOptions::observe() {
  apply();
  return value_or_fail(inspect::observe());
}

std::optional<std::string> WorldOptions::observe_if_used(const std::vector<std::string>& names) {
  apply();
  auto observed = inspect::observe();
  const bool may_be_unused = is_one_of_many_ || (names.empty() && !names_missing_directory());
  if (observed || !may_be_unused || !inspect::is_unused_yet(observed.status()))
    return value_or_fail(std::move(observed));
  if (!json_ && !is_one_of_many_)
    say("{} ({}); {}", inspect::kUnusedYet, inspect::directory_to_be(), inspect::kOtherWays);
  return std::nullopt;
}

bool WorldOptions::names_missing_directory() const {
  return !directory_.empty() && ::access(directory_.c_str(), F_OK) != 0;
}

bool WorldOptions::names_none() const { return directory_.empty() && !user_ && inspect::is_default_directory(); }

bool WorldOptions::shows_all() const { return ::geteuid() == 0 && names_none() && !is_one_; }

std::vector<Shown> WorldOptions::look(double seconds, const std::function<Shown()>& look) {
  const auto all = shows_all() ? inspect::find_user_directories() : inspect::UserDirectories();
  const bool is_own = all.found.empty() || (all.found.size() == 1 && all.found.front().user == ::geteuid());
  if (is_own) {
    Shown only = look();
    only.user = owner_of(only.directory);
    return {std::move(only)};
  }
  if (all.left_out != 0)
    say("showing only {} of {} runtime directories", all.found.size(), all.found.size() + all.left_out);
  has_asked_each_ = true;
  return look_at_each(all.found, seconds, [&] {
    is_one_of_many_ = true;
    return look();
  });
}

std::vector<std::string> WorldOptions::names_in(const std::string& directory,
                                                const std::vector<std::string>& names) const {
  if (!is_one_of_many_ || names.empty()) return names;
  const std::vector<std::string> there = value_or_fail(inspect::named_dictionaries(directory));
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (std::binary_search(there.begin(), there.end(), name)) found.push_back(name);
  return found;
}

std::string WorldOptions::hidden() const {
  if (::geteuid() == 0 || !names_none()) return {};
  const auto all = inspect::find_user_directories();
  const auto own = std::count_if(all.found.begin(), all.found.end(),
                                 [](const inspect::UserDirectory& one) { return one.user == ::geteuid(); });
  const std::size_t count = all.found.size() + all.left_out - static_cast<std::size_t>(own);
  if (count == 0) return {};
  return inspect::counted(count, "more runtime directory belongs to another user",
                          "more runtime directories belong to other users");
}

void WorldOptions::print_rest(const std::vector<Shown>& all) const {
  // For a single directory, observe_if_used() has printed this already.
  if (!json_ && has_asked_each_ && !is_any_used(all)) say("{}", inspect::kUnusedYet);
  const std::string hidden = output().columns && !json_ ? this->hidden() : "";
  if (!hidden.empty()) print(paragraph(output().styled(hidden + "; " + kSeeHidden, Style::dim), output().width));
}

std::string WorldOptions::enter(inspect::IfMissing if_missing) {
  apply();
  return value_or_fail(inspect::enter(if_missing));
}

}  // namespace holdfast::cli
