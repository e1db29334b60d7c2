#include "cli/world_options.h"

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "base/name.h"
#include "cli/message.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

/// For a look at all processes of the machine.
constexpr double kScanSeconds = 5;

struct User {
  std::string login;  // empty: the system has no name for it, as for one of a container
  uid_t uid;
  gid_t gid;
};

/// By name or number.
std::optional<User> find_user(const std::string& text) {
  constexpr std::uint64_t kUidMax = std::numeric_limits<uid_t>::max() - 1;
  const passwd* found = ::getpwnam(text.c_str());
  const auto number = inspect::whole_number_of(text);
  const bool is_uid = found == nullptr && number && *number <= kUidMax;
  if (is_uid) found = ::getpwuid(static_cast<uid_t>(*number));
  if (found != nullptr) return User{found->pw_name, found->pw_uid, found->pw_gid};
  if (is_uid) return User{"", static_cast<uid_t>(*number), static_cast<gid_t>(*number)};
  return std::nullopt;
}

bool take_groups(const User& user) {
  const bool taken =
      user.login.empty() ? ::setgroups(0, nullptr) == 0 : ::initgroups(user.login.c_str(), user.gid) == 0;
  return taken && ::setresgid(user.gid, user.gid, user.gid) == 0;
}

std::optional<int> report(const Expected<std::string>& directory, std::string& to) {
  if (!directory) {
    say("{}", directory.status().message);
    return exit_status::kTrouble;
  }
  to = *directory;
  return std::nullopt;
}

}  // namespace

WorldOptions::WorldOptions(Arguments& arguments, Prints prints) {
  arguments.add_value("--dir", "PATH", "The runtime directory; default: $HOLDFAST_DIR, or that of the user",
                      directory_);
  arguments.add_value("--user", "NAME", "Become that user first, to look into its world; for root", user_);
  if (prints == Prints::nothing) return;
  arguments.add_flag("--json", json_, "Print JSON");
  arguments.add_value("--color", "WHEN", "Columns and colours: always, never, or auto, on a terminal (default)",
                      [this](const std::string& when) { return read_color(when, color_); });
}

// All that root could do is given up: files of that user are judged and opened as by one of its own programs.
std::string WorldOptions::become() {
  const std::optional<User> user = find_user(user_);
  if (!user) return fmt::format("there is no user {}: expected a name, or a number from 0 to 4294967294", quote(user_));
  const uid_t uid = user->uid;
  if (::geteuid() == uid) return {};
  if (::geteuid() != 0) return fmt::format("only root can become user {}; this is user {}", quote(user_), ::geteuid());
  if (wants_openers_)
    openers_ = inspect::Openers::read(inspect::directory_to_be(uid), inspect::all_pids(), kScanSeconds);
  if (!take_groups(*user) || ::setresuid(uid, uid, uid) != 0)
    return fmt::format("cannot become user {}: {}", quote(user_), std::strerror(errno));
  ::prctl(PR_SET_DUMPABLE, 1);  // else /proc/self belongs to root
  return {};
}

inspect::Openers WorldOptions::openers(const std::string& directory, const std::vector<std::uint32_t>& pids,
                                       double seconds) const {
  if (!openers_) return inspect::Openers::read(directory, pids, seconds);
  inspect::Openers openers = *openers_;
  openers.limit_to(pids);
  return openers;
}

std::optional<int> WorldOptions::apply() {
  if (!directory_.empty()) ::setenv("HOLDFAST_DIR", directory_.c_str(), 1);
  if (!user_.empty()) {
    if (const std::string wrong = become(); !wrong.empty()) {
      say("{}", wrong);
      return exit_status::kTrouble;
    }
  }
  // Files may be cut short by others while this process looks at them.
  static_cast<void>(holdfast_guard_sigbus());
  return std::nullopt;
}

std::optional<int> WorldOptions::observe(std::string& directory) {
  if (const auto wrong = apply()) return wrong;
  return report(inspect::observe(), directory);
}

std::optional<int> WorldOptions::enter(std::string& directory) {
  if (const auto wrong = apply()) return wrong;
  return report(inspect::enter(), directory);
}

}  // namespace holdfast::cli
