#include "lock/lock_refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "base/name.h"
#include "cli/output.h"
#include "cluster/question.h"
#include "inspect/processes.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr std::size_t kLeastKey = 1;  // the user knows the key, so it may be elided completely
constexpr std::size_t kLeastReason = 16;

std::string reason_in_words(const std::string& why) { return why.empty() ? why : ": " + quote(why, HOLDFAST_WHY_MAX); }

std::string process_in_words(const std::string& pid, const std::string& program) {
  return program.empty() ? "pid " + pid : fmt::format("pid {} ({})", pid, inspect::escaped(program));
}

/// Describes the holder, including where it runs and whether it is stopped. A stopped holder does not release the lock.
std::string holder_in_words(const holdfast_holder& holder) {
  const char* const program = holder.program;
  auto processes = inspect::Processes::read();
  if (!processes) return process_in_words(std::to_string(holder.pid), program);
  const inspect::Process& process = processes->of(holder.owner);
  if (process.pid == 0) return process_in_words(std::to_string(holder.pid), program);
  return inspect::in_words(process) + inspect::comma_after(process);
}

/// Returns a negative number if the clock of the machine that recorded the time is ahead of this machine's clock.
double seconds_since(const std::string& wall_ms) {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  const double then = std::strtod(wall_ms.c_str(), nullptr) / 1e3;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 - then;
}

}  // namespace

Part key_part(const LockOptions& options) { return {quote_key(options.key), kLeastKey}; }

std::vector<Part> refusal(holdfast_dict* dict, const LockOptions& options, const holdfast_lease* own) {
  const Part key = key_part(options);
  std::array<holdfast_holder, 2> holders{};
  std::uint32_t count = 0;
  std::uint32_t waiters = 0;
  const int code = holdfast_holders(dict, options.key.data(), options.key.size(), holders.data(), 2, &count, &waiters);
  if (code != HOLDFAST_OK) return {key, {" is held"}};
  const bool own_is_first = own != nullptr && own->sequence == holders.front().sequence;
  if (own != nullptr && count > 0) --count;
  if (count == 0) return {key, {" is held"}};
  const holdfast_holder& holder = own_is_first ? holders.back() : holders.front();
  const char* const why = holder.why;
  const std::string others = count == 1 ? "" : fmt::format(" and {} more", count - 1);
  const bool is_shared = holder.kind == HOLDFAST_HELD_RWLOCK && holder.permits != HOLDFAST_ALL_PERMITS;
  return {key,
          {fmt::format(" {} {}{} for {}", is_shared ? "has been shared by" : "has been held by",
                       holder_in_words(holder), others, inspect::duration_in_words(holder.held))},
          {reason_in_words(why), kLeastReason},
          {is_shared && options.shared ? "; an exclusive waiter comes first" : ""}};
}

std::string refusal_elsewhere(const LockOptions& options, const Answer& answer) {
  const std::string key = quote_key(options.key);
  Answer holder = answer;
  if (holder["code"] == "no") return key + " was held by another machine until just now";
  if (holder["code"] != "yes") return key + " is held by another machine";
  if (holder["machine"].empty())
    return fmt::format("{} is held by no machine: its key in the store has no lease; see \"holdfast cluster holders\"",
                       key);
  const double held = holder.contains("when") ? seconds_since(holder["when"]) : -1;
  std::string line = key + (held >= 0 ? " has been held by " : " is held by ") +
                     (holder["host"].empty() ? "an unknown host" : "host " + inspect::escaped(holder["host"]));
  if (holder.contains("pid")) line += ", " + process_in_words(inspect::escaped(holder["pid"]), holder["program"]);
  if (held >= 0) line += " for " + inspect::duration_in_words(held);
  return line + reason_in_words(holder["why"]);
}

}  // namespace holdfast::cli
