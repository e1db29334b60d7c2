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

int run_release(const Words& given);

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

int refuse(const KeyCommand& command, const std::string& key, const inspect::Lock& lock, std::uint64_t token) {
  if (lock.holders.empty()) return command.no(fmt::format("{} is not held: nothing was done", quote(key)));
  auto processes = inspect::Processes::read();
  const std::string holders = processes ? holders_in_words(lock, *processes) : "with another token";
  return command.no(fmt::format("{} is not held with token {}, but {}: nothing was done", quote(key), token, holders));
}

int run_release(const Words& given) {
  KeyCommand command(kRelease, WorldOptions::Prints::nothing);
  std::uint64_t token = 0;
  command.arguments().add_value(
      "-t,--token", "N", "The token of the grant to end; required", [&](const std::string& text) {
        const auto number = inspect::whole_number_of(text);
        token = number.value_or(0);
        return token != 0 ? std::string() : fmt::format("bad token {}: expected a number above 0", quote(text));
      });
  command.arguments().expect_words(2, 2, {"NAME", "KEY"});
  if (const auto done = command.read_line(given)) return *done;
  if (token == 0) return command.arguments().refuse("no --token was given: \"holdfast locks\" tells it");
  std::string key;
  if (const auto wrong = command.read_key(1, key)) return *wrong;
  if (const auto wrong = command.open(KeyCommand::Does::change)) return *wrong;
  const inspect::Lock lock = inspect::look_at_lock(command.dict(), command.name(), key);
  if (!lock.trouble.empty()) {
    say("{}", lock.trouble);
    return exit_status::kTrouble;
  }
  const auto holder = std::find_if(lock.holders.begin(), lock.holders.end(),
                                   [&](const holdfast_holder& one) { return one.sequence == token; });
  if (holder == lock.holders.end()) return refuse(command, key, lock, token);
  const holdfast_lease lease{holder->owner, holder->sequence};
  const int code = holdfast_lock_break(command.dict(), key.data(), key.size(), &lease);
  if (code == HOLDFAST_NOT_OWNER) return command.no(fmt::format("the grant with token {} has just ended", token));
  return code == HOLDFAST_OK ? exit_status::kYes : command.fail(code);
}

}  // namespace

}  // namespace holdfast::cli
