#include "cli/user.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "base/name.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

struct User {
  std::string login;  // empty if the system has no name for the user, for example a user of a container
  uid_t uid;
  gid_t gid;
};

/// Finds a user by name or number.
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

}  // namespace

std::string check_user(const std::string& name) {
  if (name.empty()) return "bad user \"\": expected a name or number";
  if (find_user(name)) return {};
  return fmt::format("there is no user {}: expected a name, or a number from 0 to 4294967294", quote(name));
}

std::string become_user(const std::string& name, const std::function<void(uid_t)>& before) {
  const std::optional<User> user = find_user(name);
  if (name.empty() || !user) return check_user(name);
  const uid_t uid = user->uid;
  if (::geteuid() == uid) return {};
  if (::geteuid() != 0)
    return fmt::format("cannot become user {}: only root can switch users, and this command runs as user {}",
                       quote(name), ::geteuid());
  if (before) before(uid);
  if (!take_groups(*user) || ::setresuid(uid, uid, uid) != 0)
    return fmt::format("cannot become user {}: {}", quote(name), std::strerror(errno));
  ::prctl(PR_SET_DUMPABLE, 1);  // otherwise /proc/self belongs to root
  return {};
}

}  // namespace holdfast::cli
