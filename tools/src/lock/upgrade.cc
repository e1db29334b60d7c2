#include "lock/upgrade.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/message.h"
#include "cli/output.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "lock/descriptor_lock.h"
#include "lock/job.h"
#include "lock/lock_refusal.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

namespace {

/// How long -n waits for a process that is stopped inside the dictionary.
constexpr double kTrySeconds = 2;
constexpr double kTryAgainSeconds = 0.01;

class Upgrade {
 public:
  explicit Upgrade(const LockOptions& options) : options_(options) {}

  int run() {
    const std::string& program = options_.command.front();  // the upgrade waits under the caller's name
    holdfast_name_program(program.data(), program.size());
    const int code = holdfast_attach(options_.dictionary.data(), options_.dictionary.size(), &dict_);
    if (code == HOLDFAST_NOT_FOUND) return refuse_stranger();
    if (code != HOLDFAST_OK) {
      say("{}", holdfast_error());
      return lock_status::kCannotOpen;
    }
    const std::vector<holdfast_holder> own = own_grants();
    if (own.empty()) return refuse_stranger();
    if (own.size() > 1)
      return refuse(lock_status::kUsage,
                    fmt::format("{} holds it {} times, and the holds would wait for each other", whose(), own.size()));
    if (options_.fd >= 0 && options_.dictionary == kFlockDictionary)
      return refuse(lock_status::kUsage, "flock(2) has locked the file; use holdfast flock -x");
    if (own.front().kind == HOLDFAST_HELD_SEMAPHORE)
      return refuse(lock_status::kUsage, "a permit of a semaphore cannot become exclusive");
    lease_ = {own.front().owner, own.front().sequence};
    const int status = own.front().kind == HOLDFAST_HELD_LOCK ? 0 : wait();
    return status == 0 ? confirm() : status;
  }

 private:
  bool tries() const noexcept { return options_.timeout == 0; }

  /// Returns the grants of the key that the caller may upgrade.
  std::vector<holdfast_holder> own_grants() {
    std::vector<holdfast_holder> holders(HOLDFAST_HOLDERS_MAX);
    std::uint32_t count = 0;
    std::uint32_t waiters = 0;
    const int code = holdfast_holders(dict_, options_.key.data(), options_.key.size(), holders.data(),
                                      static_cast<std::uint32_t>(holders.size()), &count, &waiters);
    holders.resize(code == HOLDFAST_OK ? std::min<std::size_t>(count, holders.size()) : 0);
    const std::set<pid_t> keepers = options_.fd >= 0 ? keepers_of_descriptor(options_.fd) : std::set<pid_t>();
    const char* const token = std::getenv("HOLDFAST_TOKEN");
    // The token alone is not enough, because a lock in another directory may have the same token.
    const std::uint64_t sequence = inspect::whole_number_of(token != nullptr ? token : "").value_or(0);
    const pid_t command = command_of_this_job();
    std::erase_if(holders, [&](const holdfast_holder& holder) {
      const auto pid = static_cast<pid_t>(holder.pid);
      const bool own = options_.fd >= 0 ? keepers.contains(pid) : holder.sequence == sequence && pid == command;
      return !own || holder.alive == 0 || holder.sequence == 0;
    });
    return holders;
  }

  int wait() {
    const std::unique_ptr<holdfast_parker, void (*)(holdfast_parker*)> parker(holdfast_parker_new(),
                                                                              holdfast_parker_free);
    holdfast_wait step{};
    step.parker = parker.get();
    if (parker != nullptr) step.waiter = holdfast_waiter_open(parker.get());
    if (step.waiter == 0) return fail(HOLDFAST_SYSTEM);
    step.holds = HOLDFAST_HOLDS_NOTHING;
    const int status = wait_with(step);
    holdfast_lock_leave(dict_, options_.key.data(), options_.key.size(), step.parker, step.waiter);
    return status;
  }

  int wait_with(holdfast_wait& step) {
    const double start = holdfast_now();
    const double patience = tries() ? kTrySeconds : options_.timeout;
    const double deadline = patience == kForEver ? std::numeric_limits<double>::infinity() : start + patience;
    if (!tries() && options_.timeout != kForEver) step.timeout = options_.timeout;
    WaitNotice notice(!options_.quiet && !tries());
    for (;;) {
      const int code = holdfast_permits_upgrade(dict_, options_.key.data(), options_.key.size(), HOLDFAST_HOW_ANY_OWNER,
                                                tries() ? nullptr : &step, &lease_);
      const double now = holdfast_now();
      if (code == HOLDFAST_OK && options_.verbose) say("getting lock took {:.6f} seconds", now - start);
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return fail(code);
      if ((tries() && code == HOLDFAST_LOCKED) || now >= deadline) {
        notice.clear();
        return refuse_for_others();
      }
      if (notice.due_in(now - start) <= 0) notice.show(now - start, refusal(dict_, options_, &lease_));
      const double sleep = std::min(deadline - now, std::max(notice.due_in(now - start), 0.0));
      std::uint32_t woken = 0;
      holdfast_parker_sleep(step.parker, std::min(sleep, tries() ? kTryAgainSeconds : step.sleep), &woken, 1);
    }
  }

  int fail(int code) const {
    if (code == HOLDFAST_OK) return 0;
    if (code == HOLDFAST_NOT_OWNER || code == HOLDFAST_REMOVED) return refuse_stranger();
    if (code == HOLDFAST_DEADLOCK && options_.quiet) return options_.conflict;
    if (code == HOLDFAST_DEADLOCK)
      return refuse(options_.conflict,
                    "deadlock: another process that shares it is also waiting to upgrade; release this lock, and start "
                    "again");
    const char* const error = holdfast_error();
    return refuse(lock_status::kSystem, *error != '\0' ? error : holdfast_code_text(code));
  }

  /// Checks that the holder still has the lock, because it may have died during the upgrade.
  int confirm() {
    const std::vector<holdfast_holder> own = own_grants();
    const bool stands = std::any_of(own.begin(), own.end(), [&](const holdfast_holder& holder) {
      return holder.owner == lease_.owner && holder.sequence == lease_.sequence;
    });
    return stands ? 0 : refuse_stranger();
  }

  std::string whose() const {
    return options_.fd >= 0 ? fmt::format("descriptor {}", options_.fd) : std::string("this job");
  }

  int refuse(int status, const std::string& why) const {
    say("cannot upgrade {}: {}", quote_key(options_.key), why);
    return status;
  }
  int refuse_stranger() const { return refuse(lock_status::kLost, fmt::format("{} does not hold it", whose())); }
  int refuse_for_others() const {
    if (!options_.quiet) {
      const bool waited = options_.timeout > 0;
      say("{}{}", line_of(refusal(dict_, options_, &lease_), 0),
          waited ? "; waited for " + inspect::duration_in_words(options_.timeout) : "");
    }
    return options_.conflict;
  }

  const LockOptions& options_;
  holdfast_dict* dict_ = nullptr;
  holdfast_lease lease_{};
};

}  // namespace

int upgrade_lock(const LockOptions& options) {
  if (options.fd >= 0 && !is_open_or_said(options.fd)) return lock_status::kData;
  return Upgrade(options).run();
}

}  // namespace holdfast::cli
