#include "inspect/user_access.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::inspect {

namespace {

/// The user whose access rights this process has, although root runs it. This is root until look_as_user() is called.
uid_t looked_as = 0;

/// Sets the effective user, and prevents the user from tracing this process. The latter must be repeated, because each
/// change of the user may allow tracing again.
bool become_effectively(uid_t user) { return ::seteuid(user) == 0 && ::prctl(PR_SET_DUMPABLE, 0) == 0; }

}  // namespace

std::string name_of_user(uid_t user) {
  const passwd* const found = ::getpwuid(user);
  return found != nullptr ? found->pw_name : std::to_string(user);
}

std::string look_as_user(uid_t user) {
  if (user == ::geteuid()) return {};
  const passwd* const found = ::getpwuid(user);
  const gid_t group = found != nullptr ? found->pw_gid : static_cast<gid_t>(user);
  if (::setgroups(0, nullptr) != 0 || ::setegid(group) != 0 || !become_effectively(user))
    return fmt::format("cannot become user {}: {}", user, std::strerror(errno));
  looked_as = user;
  return {};
}

RootAgain::RootAgain() {
  if (looked_as != 0 && !become_effectively(0)) ::_exit(1);
}

RootAgain::~RootAgain() {
  if (looked_as != 0 && !become_effectively(looked_as)) ::_exit(1);
}

}  // namespace holdfast::inspect
