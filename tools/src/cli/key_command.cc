#include "cli/key_command.h"

#include <fmt/format.h>

#include "base/name.h"
#include "cli/message.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

KeyCommand::KeyCommand(const Subcommand& command, WorldOptions::Prints prints)
    : arguments_(command), world_(arguments_, prints) {
  arguments_.add_flag("-e,--escaped", escaped_,
                      "Keys and values are typed as they are printed: \\xHH is a byte, \\\\ is \\");
}

std::optional<int> KeyCommand::begin(const Words& given, Does does) {
  if (const auto done = read_line(given)) return done;
  return open(does);
}

std::optional<int> KeyCommand::open(Does does) {
  std::string directory;
  if (const auto wrong = does == Does::look ? world_.observe(directory) : world_.enter(directory)) return wrong;
  auto dict = inspect::attach(name());
  if (!dict) {
    say("{}", dict.status().message);
    return exit_status::kTrouble;
  }
  dict_ = *dict;
  return std::nullopt;
}

std::optional<std::string> KeyCommand::plain(const std::string& typed) const {
  if (!escaped_) return typed;
  auto text = inspect::unescaped(typed);
  if (!text) arguments_.refuse(fmt::format("bad escape in {}: expected \\xHH or \\\\", quote(typed)));
  return text;
}

std::optional<int> KeyCommand::read_key(std::size_t number, std::string& key) const {
  const auto text = plain(arguments_.word(number));
  if (!text) return exit_status::kTrouble;
  if (text->empty() || text->size() > HOLDFAST_KEY_MAX)
    return arguments_.refuse(fmt::format("bad key of {} bytes: expected 1 to {}", text->size(), int{HOLDFAST_KEY_MAX}));
  key = *text;
  return std::nullopt;
}

bool KeyCommand::may_be_held(const std::string& key) const {
  const inspect::Lock lock = inspect::look_at_lock(dict_, name(), key);
  if (lock.trouble.empty() && lock.holders.empty()) return false;
  std::string trouble = inspect::trouble_of_holders(lock);
  auto processes = inspect::Processes::read();
  if (!processes) trouble = processes.status().message;
  const holdfast_holder* const holder = processes ? inspect::living_holder(lock, *processes) : nullptr;
  if (holder != nullptr)
    say("{} is held by {} for {}", quote(key), inspect::in_words(processes->of(holder->owner)),
        inspect::duration_in_words(holder->held));
  else if (!trouble.empty())
    say("it cannot be told whether {} is held: {}; --force does it all the same", quote(key), trouble);
  return holder != nullptr || !trouble.empty();
}

int KeyCommand::fail(int code) const {
  say("{}", inspect::sentence(code));
  return exit_status::kTrouble;
}

int KeyCommand::no(const std::string& sentence) const {
  say("{}", sentence);
  return exit_status::kNo;
}

}  // namespace holdfast::cli
