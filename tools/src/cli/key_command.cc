#include "cli/key_command.h"

#include <fmt/format.h>

#include "base/name.h"
#include "base/parse.h"
#include "cli/message.h"
#include "cli/output.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

KeyCommand::KeyCommand(Arguments& arguments, WorldOptions::Prints prints)
    : arguments_(arguments), world_(arguments, prints) {
  arguments.add_flag("-e,--escaped", escaped_, "Interpret escapes in arguments: \\xHH is a byte, \\\\ is \\");
}

holdfast_dict* KeyCommand::open(Does does) {
  does == Does::look ? world_.observe() : world_.enter();
  return dict_ = value_or_fail(inspect::attach(name()));
}

holdfast_dict* KeyCommand::open_or_create(holdfast_options options, bool creates) {
  world_.enter(inspect::IfMissing::create);
  const std::string name = this->name();
  int code = holdfast_attach(name.data(), name.size(), &dict_);
  if (code == HOLDFAST_NOT_FOUND && !creates) return nullptr;
  if (code == HOLDFAST_OK) options.largest = 0;  // an existing dictionary keeps its own limit
  const bool asks = options.size != 0 || options.persist == HOLDFAST_PERSISTENT;
  if (code == HOLDFAST_NOT_FOUND || (code == HOLDFAST_OK && asks))
    code = holdfast_open(name.data(), name.size(), &options, &dict_);
  if (code == HOLDFAST_MISMATCH) {
    say("{}", inspect::sentence(code));
    code = holdfast_attach(name.data(), name.size(), &dict_);
  }
  if (code != HOLDFAST_OK) fail_by(code);
  return dict_;
}

std::string KeyCommand::plain(const std::string& typed) const {
  if (!escaped_) return typed;
  const auto text = inspect::unescaped(typed);
  if (!text) arguments_.refuse(fmt::format("bad escape in {}: expected \\xHH or \\\\", quote(typed)));
  return *text;
}

std::string KeyCommand::key(std::size_t number) const {
  std::string key = plain(arguments_.word(number));
  if (key.empty() || key.size() > HOLDFAST_KEY_MAX)
    arguments_.refuse(fmt::format("bad key: expected 1 to {1} bytes, got {0}", key.size(), int{HOLDFAST_KEY_MAX}));
  return key;
}

bool KeyCommand::may_be_held(const std::string& key) const {
  const inspect::Lock lock = inspect::look_at_lock(dict_, name(), key);
  if (lock.trouble.empty() && lock.holders.empty()) return false;
  std::string trouble = inspect::trouble_of_holders(lock);
  auto processes = inspect::Processes::read();
  if (!processes) trouble = processes.status().message;
  const holdfast_holder* const holder = processes ? inspect::living_holder(lock, *processes) : nullptr;
  if (holder != nullptr)
    say("{} has been held by {} for {}; use --force to override", quote_key(key),
        inspect::in_words(processes->of(holder->owner)), inspect::duration_in_words(holder->held));
  else if (!trouble.empty())
    say("cannot tell whether {} is held ({}); use --force to override", quote_key(key), trouble);
  return holder != nullptr || !trouble.empty();
}

std::string read_seconds(const std::string& text, double& seconds) {
  constexpr double kMost = 1e10;  // holdfast.h: longer times mean never
  seconds = inspect::number_of(text).value_or(-1);
  if (seconds >= 0 && seconds <= kMost) return {};
  return fmt::format("bad time {}: expected seconds from 0 to 1e10, as in 2.5", quote(text));
}

std::string read_size(const std::string& text, std::uint64_t& bytes) {
  const auto size = parse_size(text);
  bytes = size ? *size : 0;
  if (!size) return size.status().message;
  return bytes >= HOLDFAST_SIZE_MIN
             ? std::string()
             : fmt::format("bad size {}: expected at least {} bytes (12k)", quote(text), int{HOLDFAST_SIZE_MIN});
}

void fail_by(int code) { fail("{}", inspect::sentence(code)); }

}  // namespace holdfast::cli
