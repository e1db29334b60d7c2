// `holdfast release`: ends a grant that its holder does not end.
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
                                 : fmt::format("by {}, which is about to take it and has no token yet", who);
  }
  if (lock.holder_count > kShown) text += fmt::format("; and {} more", lock.holder_count - kShown);
  return text;
}

int refuse(const std::string& key, const inspect::Lock& lock, std::uint64_t token) {
  if (lock.holders.empty()) return say_no("{} is not held: nothing was done", quote(key));
  auto processes = inspect::Processes::read();
  const std::string holders = processes ? holders_in_words(lock, *processes) : "with another token";
  return say_no("{} is not held with token {}, but {}: nothing was done", quote(key), token, holders);
}

int run_release(Arguments& arguments) {
  KeyCommand command(arguments, WorldOptions::Prints::nothing);
  std::uint64_t token = 0;
  arguments.add_number("-t,--token", "N", "The token of the grant to end; required", token,
                       {.least = 1, .wrong = "bad token {}: expected a number above 0"});
  arguments.parse(2, 2, {"NAME", "KEY"});
  if (token == 0) arguments.refuse("no --token was given: \"holdfast locks\" tells it");
  const std::string key = command.key();
  holdfast_dict* const dict = command.open(KeyCommand::Does::change);
  const inspect::Lock lock = inspect::look_at_lock(dict, command.name(), key);
  if (!lock.trouble.empty()) fail("{}", lock.trouble);
  const auto holder = std::find_if(lock.holders.begin(), lock.holders.end(),
                                   [&](const holdfast_holder& one) { return one.sequence == token; });
  if (holder == lock.holders.end()) return refuse(key, lock, token);
  const holdfast_lease lease{holder->owner, holder->sequence};
  const int code = holdfast_lock_break(dict, key.data(), key.size(), &lease);
  if (code == HOLDFAST_NOT_OWNER) return say_no("the grant with token {} has just ended", token);
  if (code != HOLDFAST_OK) fail_by(code);
  return exit_status::kYes;
}

}  // namespace

const Subcommand kRelease{
    "release",
    "End a grant that its holder does not end",
    "NAME KEY --token N",
    "Ends the grant of a lock or of permits that has the token N, whichever process has it.",
    R"("holdfast locks" tells the token, which is the fencing number of the grant. No later grant is
ended by it. The holder is not told: it learns when it renews or unlocks, and whatever checks
tokens refuses it from the next grant on.

Exit status: 0; 1 refused: the key is not held with that token; 2 trouble.)",
    run_release};

}  // namespace holdfast::cli
