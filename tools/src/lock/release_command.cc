// `holdfast release`: releases a lock on behalf of its holder.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

std::string holders_in_words(const inspect::Lock& lock, inspect::Processes& processes) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < lock.holders.size() && i < kShown; ++i) {
    const holdfast_holder& holder = lock.holders[i];
    const std::string who = inspect::in_words(processes.of(holder.owner));
    text += i == 0 ? "" : "; ";
    text += holder.sequence != 0
                ? fmt::format("with token {} by {} ({})", holder.sequence, who, inspect::duration_in_words(holder.held))
                : fmt::format("by {}, which is still taking it and has no token yet", who);
  }
  if (lock.holder_count > kShown) text += fmt::format("; and {} more", lock.holder_count - kShown);
  return text;
}

/// Returns a text such as "\"key\" has been held by pid 4711 (backup.sh) since 2026-11-28 14:03:12 (3 min): full".
std::string holder_in_words(const std::string& key, const holdfast_holder& holder, inspect::Processes& processes) {
  const std::string share =
      holder.kind == HOLDFAST_HELD_LOCK ? "" : fmt::format(" ({})", inspect::share_in_words(holder));
  const inspect::Process& process = processes.of(holder.owner);
  const std::string why = inspect::escaped(static_cast<const char*>(holder.why));
  return fmt::format("{}{} has been held by {}{} since {} ({}){}", quote_key(key), share, inspect::in_words(process),
                     inspect::comma_after(process), inspect::time_ago_in_words(holder.held),
                     inspect::duration_in_words(holder.held), why.empty() ? "" : ": " + why);
}

bool can_ask() noexcept { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0; }

bool says_yes(const std::string& about) {
  fmt::print(stderr, "{}Release it? [y/N] ", paragraph("holdfast: " + about, line_width(STDERR_FILENO)));
  std::string answer;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n') answer += c;
  return answer == "y" || answer == "Y" || answer == "yes";
}

struct ReleaseOptions {
  std::uint64_t token = 0;  // 0: any
  bool yes = false;
};

/// Releases the requested grants. Returns the exit status.
class Release {
 public:
  Release(holdfast_dict* dict, std::string key, inspect::Processes& processes)
      : dict_(dict), key_(std::move(key)), processes_(processes) {}

  int run(const inspect::Lock& lock, const ReleaseOptions& options) {
    if (lock.holders.empty()) return say_no("cannot release {}: it is not held", quote_key(key_));
    int status = exit_status::kYes;
    bool found = false;
    for (const holdfast_holder& holder : lock.holders) {
      if (options.token != 0 && holder.sequence != options.token) continue;
      found = true;
      const bool is_wanted = options.token != 0 || options.yes || says_yes(holder_in_words(key_, holder, processes_));
      status = std::max(status, is_wanted ? end(holder) : say_no("{} was not released", quote_key(key_)));
    }
    if (!found)
      return say_no("cannot release {} with token {}: it is held {}", quote_key(key_), options.token,
                    holders_in_words(lock, processes_));
    return status;
  }

 private:
  int end(const holdfast_holder& holder) {
    if (holder.sequence == 0)
      return say_no("cannot release {}: {} is still taking it", quote_key(key_),
                    inspect::in_words(processes_.of(holder.owner)));
    const holdfast_lease lease{holder.owner, holder.sequence};
    const int code = holdfast_lock_break(dict_, key_.data(), key_.size(), &lease);
    if (code == HOLDFAST_NOT_OWNER)
      return say_no("cannot release {}: the grant with token {} has just ended", quote_key(key_), holder.sequence);
    if (code != HOLDFAST_OK) fail_by(code);
    return exit_status::kYes;
  }

  holdfast_dict* dict_;
  const std::string key_;
  inspect::Processes& processes_;
};

int run_release(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  ReleaseOptions options;
  arguments.add_number("-t,--token", "N", "Release the grant with this token only, without asking", options.token,
                       {.least = 1, .wrong = "bad token {}: expected a number above 0"});
  arguments.add_flag("-y,--yes", options.yes, "Release without asking");
  arguments.parse(2, 2, {"NAME", "KEY"});
  if (options.token == 0 && !options.yes && !can_ask())
    arguments.refuse("cannot ask for confirmation: there is no terminal; use --token N or --yes");
  const std::string key = command.key();
  holdfast_dict* const dict = command.open(KeyCommand::Does::change);
  const inspect::Lock lock = inspect::look_at_lock(dict, command.name(), key);
  if (!lock.trouble.empty()) fail("{}", lock.trouble);
  inspect::Processes processes = value_or_fail(inspect::Processes::read());
  return Release(dict, key, processes).run(lock, options);
}

}  // namespace

const Subcommand kRelease{
    "release",
    "Release a lock that another process holds",
    "NAME KEY",
    "Release a lock or permits that another process holds.",
    R"(Shows each holder, how long it has held the key, and why, and asks for confirmation. In scripts,
use --token or --yes. "holdfast locks" shows the token, which is the grant's fencing token. Later
grants are not affected. The holder is not notified, but its next renewal or unlock fails, and a
resource that checks tokens refuses the old token once it has seen a later one.

Exit status: 0 success; 1 the key is not held, or not with that token, or the answer was no;
2 error.)",
    run_release};

}  // namespace holdfast::cli
