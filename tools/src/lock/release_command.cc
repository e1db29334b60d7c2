// `holdfast release`: releases a lock that its holder does not release.
#include <fmt/format.h>

#include <algorithm>

#include "base/name.h"
#include "cli/key_command.h"
#include "cli/message.h"
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
    text += holder.sequence != 0 ? fmt::format("with token {} by {} for {}", holder.sequence, who,
                                               inspect::duration_in_words(holder.held))
                                 : fmt::format("by {}, which is still taking it and has no token yet", who);
  }
  if (lock.holder_count > kShown) text += fmt::format("; and {} more", lock.holder_count - kShown);
  return text;
}

int refuse(const std::string& key, const inspect::Lock& lock, std::uint64_t token) {
  if (lock.holders.empty()) return say_no("cannot release {}: it is not held", quote(key));
  auto processes = inspect::Processes::read();
  const std::string holders = processes ? holders_in_words(lock, *processes) : "with another token";
  return say_no("cannot release {} with token {}: it is held {}", quote(key), token, holders);
}

int run_release(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  std::uint64_t token = 0;
  arguments.add_number("-t,--token", "N", "Release only the grant with this token; required", token,
                       {.least = 1, .wrong = "bad token {}: expected a number above 0"});
  arguments.parse(2, 2, {"NAME", "KEY"});
  if (token == 0) arguments.refuse("no --token was given: \"holdfast locks\" shows it");
  const std::string key = command.key();
  holdfast_dict* const dict = command.open(KeyCommand::Does::change);
  const inspect::Lock lock = inspect::look_at_lock(dict, command.name(), key);
  if (!lock.trouble.empty()) fail("{}", lock.trouble);
  const auto holder = std::find_if(lock.holders.begin(), lock.holders.end(),
                                   [&](const holdfast_holder& one) { return one.sequence == token; });
  if (holder == lock.holders.end()) return refuse(key, lock, token);
  const holdfast_lease lease{holder->owner, holder->sequence};
  const int code = holdfast_lock_break(dict, key.data(), key.size(), &lease);
  if (code == HOLDFAST_NOT_OWNER)
    return say_no("cannot release {}: the grant with token {} has just ended", quote(key), token);
  if (code != HOLDFAST_OK) fail_by(code);
  return exit_status::kYes;
}

}  // namespace

const Subcommand kRelease{"release",
                          "Release a lock that another process holds",
                          "NAME KEY --token N",
                          "Release a lock or permits that another process holds, by their token.",
                          R"("holdfast locks" shows the token, which is the grant's fencing number. Later grants are not
affected. The holder is not notified: its next renewal or unlock fails, and a resource that checks
tokens refuses it once it has seen the next grant.

Exit status: 0 success; 1 the key is not held with that token; 2 error.)",
                          run_release};

}  // namespace holdfast::cli
