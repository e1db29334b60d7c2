#include "lock/replacement.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/message.h"
#include "cli/output.h"
#include "inspect/processes.h"

namespace holdfast::cli {

namespace {

/// Returns whether the process exists and runs as a different user.
bool is_of_other_user(pid_t pid) {
  struct stat info {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 && info.st_uid != ::geteuid();
}

/// How long a new holder may lack the mark of a job.
constexpr double kUnknownSeconds = 1;

/// Returns whether this process belongs to the job.
bool is_own(const FoundJob& job) {
  const char* const marks = std::getenv(kJobVariable);
  return marks != nullptr && (":" + std::string(marks) + ":").find(":" + job.mark + ":") != std::string::npos;
}

std::vector<holdfast_holder> holders_of(holdfast_dict* dict, const std::string& key) {
  std::vector<holdfast_holder> holders(HOLDFAST_HOLDERS_MAX);
  std::uint32_t count = 0;
  std::uint32_t waiters = 0;
  const int code = holdfast_holders(dict, key.data(), key.size(), holders.data(),
                                    static_cast<std::uint32_t>(holders.size()), &count, &waiters);
  holders.resize(code == HOLDFAST_OK ? std::min<std::size_t>(count, holders.size()) : 0);
  return holders;
}

}  // namespace

std::string Replacement::end_holders(holdfast_dict* dict, pid_t own) {
  auto processes = inspect::Processes::read();
  if (!processes) return {};  // the attempt to take the lock reports what is wrong
  std::vector<std::tuple<std::uint64_t, pid_t, FoundJob>> found;
  bool is_unknown = false;
  for (const holdfast_holder& holder : holders_of(dict, options_.key)) {
    const inspect::Process& process = processes->of(holder.owner);
    const auto pid = static_cast<pid_t>(process.pid_here);
    const bool is_taking_it = holder.sequence == 0;
    if (is_taking_it || process.life == inspect::Life::dead || pid == own) continue;
    if (options_.permits != 0 && !found.empty()) break;  // one permit is enough
    auto job = pid != 0 ? find_job(pid) : std::nullopt;
    // Skip a holder whose processes have ended, because its wrapper or guard is about to release the lock.
    if (!job && (kill_at_.contains(holder.sequence) || process.life == inspect::Life::ended)) continue;
    const char* const wrong = is_of_other_user(pid) ? "it runs as a different user"
                              : !job                ? "it is not a job of holdfast lock on this machine"
                              : is_own(*job)        ? "this command belongs to its job"
                                                    : nullptr;
    if (wrong != nullptr) {
      // A command may get its mark shortly after it gets the lock.
      const auto [first, is_new] = unknown_since_.try_emplace(holder.sequence, holdfast_now());
      is_unknown = !job && holdfast_now() - first->second < kUnknownSeconds;
      if (is_unknown) continue;
      return fmt::format("cannot replace {}: {}", inspect::in_words(process), wrong);
    }
    found.emplace_back(holder.sequence, pid, std::move(*job));
  }
  if (is_unknown) return {};
  for (const auto& [sequence, command, job] : found) end(sequence, command, job);
  return {};
}

void Replacement::end(std::uint64_t sequence, pid_t command, const FoundJob& job) {
  const double now = holdfast_now();
  const auto [known, is_new] = kill_at_.try_emplace(sequence, now + options_.grace());
  const bool is_due = now >= known->second;
  if (!is_new && !is_due) return;
  for (const pid_t member : marked_members(job)) ::kill(member, is_new ? SIGTERM : SIGKILL);
  if (options_.quiet || (!is_new && known->second == 0)) return;
  reports_.push_back(
      fmt::format("{}: sending {} to the job of pid {}", quote_key(options_.key), is_new ? "TERM" : "KILL", command));
  if (!is_new) known->second = 0;
}

}  // namespace holdfast::cli
