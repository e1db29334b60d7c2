#include "lock/lock_taker.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/output.h"
#include "cluster/question.h"
#include "inspect/text.h"
#include "lock/file_lock.h"
#include "lock/job.h"
#include "lock/lock_refusal.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

namespace {

/// How long -n waits for the agent, which needs a round trip to the store, or for a process that is stopped inside the
/// dictionary.
constexpr double kAskSeconds = 2;
constexpr double kComplainAfterSeconds = 1;
/// How long to wait for an answer from the agent if the agent does not need the store for it.
constexpr double kAskAgentSeconds = 0.5;

struct FreeParker {
  void operator()(holdfast_parker* parker) const { holdfast_parker_free(parker); }
};
using Parker = std::unique_ptr<holdfast_parker, FreeParker>;

std::string error_or_text(int code) {
  const char* const error = holdfast_error();
  return *error != '\0' ? error : holdfast_code_text(code);
}

/// Reports why the lock cannot be visible. `holdfast flock` prints nothing, because crontabs written for flock(1)
/// expect silence.
void say_unless_dispensable(const LockOptions& options, const std::string& trouble) {
  if (!options.is_flock() || options.verbose) say_in_time("{}", trouble);
}

std::string program_of(const std::string& command) { return command.substr(command.rfind('/') + 1); }

off_t bytes_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_size : 0;
}

/// Returns true if the dictionary belongs to the requested cluster, otherwise prints an error.
bool is_of_cluster(holdfast_dict* dict, const LockOptions& options) {
  if (options.cluster.empty()) return true;
  holdfast_cluster state{};
  const int code = holdfast_cluster_state(dict, &state);
  if ((code == HOLDFAST_OK || code == HOLDFAST_UNAVAILABLE) && options.cluster == state.name) return true;
  const char* const name = state.name;
  const std::string found = *name != '\0' ? "belongs to cluster " + quote(name) : "belongs to no cluster";
  say_in_time("dictionary {} {}, but --cluster requests {}", quote_name(options.dictionary), found,
              quote(options.cluster));
  return false;
}

/// Returns true if no agent can get a lock soon. In this case, -n need not wait.
bool has_no_agent(holdfast_dict* dict) {
  holdfast_cluster state{};
  if (holdfast_cluster_state(dict, &state) != HOLDFAST_UNAVAILABLE || state.agent != 0 || state.seconds > 0)
    return false;
  // An agent that has just started may not have noticed the dictionary yet.
  int fd = -1;
  if (holdfast_ask(dict, HOLDFAST_ASK_STATUS, nullptr, 0, 0, &fd) != HOLDFAST_OK) return true;
  ::close(fd);
  return false;
}

/// Opens or creates the dictionary of the options. Returns null after printing an error; `status` is then the exit
/// status.
holdfast_dict* open_dictionary(const LockOptions& options, int& status) {
  const std::string& name = options.dictionary;
  constexpr std::uint64_t kAnySize = 0;  // other programs that use the dictionary may request a size
  const holdfast_options wanted{kAnySize, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0,
                                options.cluster.empty() ? nullptr : options.cluster.c_str()};
  holdfast_dict* dict = nullptr;
  int code = holdfast_open(name.data(), name.size(), &wanted, &dict);
  std::string error = error_or_text(code);
  if (code == HOLDFAST_MISMATCH) {  // the dictionary exists, and its options do not matter
    code = holdfast_attach(name.data(), name.size(), &dict);
    // If the dictionary is missing, its file was deleted while it was in use; the message from holdfast_open says so.
    if (code != HOLDFAST_NOT_FOUND) error = error_or_text(code);
  }
  status = lock_status::kCannotOpen;
  if (code == HOLDFAST_OK) return is_of_cluster(dict, options) ? dict : nullptr;
  say_unless_dispensable(options, error);
  return nullptr;
}

}  // namespace

bool LockTaker::sleep(holdfast_parker* parker, double seconds) {
  std::uint32_t woken = 0;
  if (parker != nullptr) holdfast_parker_sleep(parker, seconds, &woken, 1);
  return true;
}

std::optional<int> LockTaker::take() {
  start_ = holdfast_now();
  const auto refused = take_visible();
  // Continue with the flock(2) alone, because it can be taken without the dictionary.
  if (refused && !(options_.is_flock() && *refused == lock_status::kCannotOpen)) return refused;
  if (options_.is_flock() && !has_file_ && !try_file()) {
    if (const auto status = take_file()) return status;
  }
  report(options_, fmt::format("getting lock took {:.6f} seconds", holdfast_now() - start_));
  return std::nullopt;
}

std::optional<int> LockTaker::take_visible() {
  if (dict_ == nullptr) {
    if (const int status = enter()) return status;
  }
  const Parker parker(holdfast_parker_new());
  holdfast_wait wait{};
  wait.parker = parker.get();
  if (parker != nullptr) wait.waiter = holdfast_waiter_open(parker.get());
  if (wait.waiter == 0) return fail(HOLDFAST_SYSTEM);
  wait.holds = HOLDFAST_HOLDS_NOTHING;
  wait.tries = options_.timeout == 0 ? 1 : 0;
  if (const auto status = wait_for_lock(wait)) return status;
  if (!is_visible()) return std::nullopt;  // the flock(2) alone is enough
  if (!options_.why.empty()) explain(options_.why);
  return std::nullopt;
}

bool LockTaker::try_file() noexcept {
  has_file_ = options_.is_flock() && ::flock(options_.file, (options_.shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
  return has_file_;
}

std::optional<int> LockTaker::take_file() {
  const bool is_endless = options_.timeout == kForEver;
  const double deadline = is_endless ? std::numeric_limits<double>::infinity() : start_ + options_.timeout;
  WaitNotice notice(!options_.quiet && options_.timeout != 0);
  bool waited = false;
  const auto waiting = [&] {
    const double waited_for = holdfast_now() - start_;
    const bool is_due = notice.due_in(waited_for) <= 0;
    if (waited && !is_due) return;
    const std::string holder = flock_holder(options_.file);
    if (!waited) explain("waits for the flock(2) of " + holder);
    if (is_due) notice.show(waited_for, {key_part(options_), {fmt::format(" is locked by {}, with flock(2)", holder)}});
    waited = true;
  };
  const int error =
      take_flock_ ? take_flock_(deadline, waiting) : take_flock(options_.file, options_.shared, deadline, waiting);
  if (error == ECANCELED) notice.leave();
  notice.clear();
  if (error != 0) {
    give_back();
    return error == ECANCELED ? lock_status::kSystem : refuse_flock(options_, error);
  }
  if (waited) explain(options_.why);
  return std::nullopt;
}

void LockTaker::explain(const std::string& why) {
  if (!is_visible()) return;
  const std::size_t size = std::min(why.size(), std::size_t{HOLDFAST_WHY_MAX});
  static_cast<void>(holdfast_lock_explain(dict_, options_.key.data(), options_.key.size(), &lease_, why.data(), size));
}

int LockTaker::enter() {
  const std::string program = program_of(options_.command.front());
  if (!program.empty()) holdfast_name_program(program.data(), program.size());
  std::array<int, 2> fds{};
  if (const int code = holdfast_hold_with_keeper(fds.data()); code != HOLDFAST_OK) {
    say_unless_dispensable(options_, error_or_text(code));
    return lock_status::kCannotOpen;
  }
  hold_.prove_life(fds);
  table_bytes_ = bytes_of(hold_.keeper());
  return open();
}

int LockTaker::open() {
  int status = 0;
  dict_ = open_dictionary(options_, status);
  if (dict_ == nullptr) return status;
  if (const int used = use_dictionary(); used != HOLDFAST_OK) {
    if (used == HOLDFAST_REMOVED) return open();
    say_unless_dispensable(options_, error_or_text(used));
    return lock_status::kCannotOpen;
  }
  // The dictionary may belong to a cluster because of $HOLDFAST_CLUSTER, or because other programs created it for one.
  holdfast_cluster state{};
  const int code = holdfast_cluster_state(dict_, &state);
  if (code == HOLDFAST_OK || code == HOLDFAST_UNAVAILABLE) options_.cluster = static_cast<const char*>(state.name);
  if (!in_cluster()) return 0;
  if (options_.is_flock()) return lock_status::kCannotOpen;  // the machines do not share the file's flock(2)
  const std::string objection = objection_of_cluster(options_);
  if (objection.empty()) return 0;
  say_in_time("dictionary {} belongs to cluster {}: {}", quote_name(options_.dictionary), options_.cluster, objection);
  return lock_status::kUsage;
}

int LockTaker::use_dictionary() {
  std::array<int, 2> fds{};
  const int code = holdfast_use_over_exec(dict_, fds.data());
  if (code == HOLDFAST_OK) hold_.use_dictionary(fds);
  return code;
}

std::optional<int> LockTaker::wait_for_lock(holdfast_wait& wait) {
  const bool tries = options_.timeout == 0;
  const double patience = tries ? kAskSeconds : options_.timeout;
  const double deadline = options_.timeout == kForEver ? std::numeric_limits<double>::infinity() : start_ + patience;
  constexpr double kLeastWaitSeconds = 0.001;  // not 0, which means no limit
  if (options_.timeout > 0) wait.timeout = std::max(deadline - holdfast_now(), kLeastWaitSeconds);
  constexpr double kTryFileSeconds = 1;
  double next_try = holdfast_now() + kTryFileSeconds;
  WaitNotice notice(!options_.quiet && !tries);
  bool waited = false;
  for (;;) {
    int code = attempt(wait);
    // In a cluster, the holder may be the agent itself, which has just got the lock for this attempt.
    const bool held_here = in_cluster() && tries && code == HOLDFAST_LOCKED && is_held_here();
    if (held_here) code = attempt(wait);
    if (code == HOLDFAST_OK) {
      // During the wait, the dictionary may have been removed and created again in another file. If its file was
      // deleted by hand, this process cannot mark it as used again, but the mark from enter() still identifies the
      // file.
      if (waited) use_dictionary();
      return std::nullopt;
    }
    waited = true;
    if (code == HOLDFAST_REMOVED) {
      if (const int status = open()) return status;
      continue;  // try again in the new dictionary
    }
    if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return fail(code);
    const double now = holdfast_now();
    const bool refused = tries && code == HOLDFAST_LOCKED && (held_here || !in_cluster());
    const bool gives_up = refused || now >= deadline || (tries && in_cluster() && has_no_agent(dict_));
    if (gives_up || (options_.is_flock() && now >= next_try)) {
      next_try = now + kTryFileSeconds;
      const bool has_file = try_file();
      if (gives_up || has_file)
        holdfast_lock_leave(dict_, options_.key.data(), options_.key.size(), wait.parker, wait.waiter);
      if (has_file) return std::nullopt;
      if (gives_up) {
        notice.clear();
        return refuse();
      }
    }
    if (is_cluster_missing(now - start_)) {
      notice.clear();
      say_in_time("still waiting for {}: {}", quote_key(options_.key), error_or_text(HOLDFAST_UNAVAILABLE));
    }
    if (notice.due_in(now - start_) <= 0) notice.show(now - start_, obstacle());
    const double next = std::min(deadline, options_.is_flock() ? next_try : deadline) - now;
    const double sleep = std::min({wait.sleep, next, std::max(notice.due_in(now - start_), 0.0)});
    if (!pause_(wait.parker, sleep)) {
      holdfast_lock_leave(dict_, options_.key.data(), options_.key.size(), wait.parker, wait.waiter);
      notice.leave();
      return lock_status::kSystem;
    }
  }
}

double LockTaker::exptime() const noexcept {
  constexpr double kKillSeconds = 1;  // the time that processes need to end after KILL
  const bool ends_job = options_.exptime > 0 && options_.fd < 0;
  return ends_job ? options_.exptime + options_.grace() + kKillSeconds : options_.exptime;
}

int LockTaker::attempt(holdfast_wait& wait) {
  const char* const key = options_.key.data();
  const std::size_t size = options_.key.size();
  if (tries_here()) {
    // The pause between attempts while a process that is stopped inside the dictionary blocks them.
    constexpr double kTrySleepSeconds = 0.01;
    wait.sleep = kTrySleepSeconds;
    return try_once();
  }
  if (!wants_permits()) return holdfast_lock_wait(dict_, key, size, exptime(), &wait, &lease_);
  const auto [kind, want, total] = wanted_permits();
  return holdfast_permits_wait(dict_, key, size, kind, want, total, exptime(), &wait, &lease_);
}

// Makes one attempt. Statistics count it as an attempt without waiting, not as a failed wait.
int LockTaker::try_once() {
  const char* const key = options_.key.data();
  const std::size_t size = options_.key.size();
  if (!wants_permits()) return holdfast_lock_try(dict_, key, size, exptime(), 0, 0, &lease_);
  const auto [kind, want, total] = wanted_permits();
  return holdfast_permits_try(dict_, key, size, kind, want, total, exptime(), 0, 0, &lease_);
}

LockTaker::Permits LockTaker::wanted_permits() const {
  constexpr auto kAll = static_cast<std::uint32_t>(HOLDFAST_ALL_PERMITS);
  if (options_.permits != 0) return {HOLDFAST_SEMAPHORE, 1, options_.permits};
  return {HOLDFAST_RWLOCK, 1, kAll};
}

int LockTaker::refuse() {
  // If a process on this machine holds the lock, it remains held as long as the session lasts.
  holdfast_cluster state{};
  if (in_cluster() && holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE &&
      (state.seconds == 0 || !is_held_here()))
    return fail(HOLDFAST_UNAVAILABLE);
  if (in_cluster() && !is_held_here()) return refuse_elsewhere();
  if (!options_.quiet) say_in_time("{}{}", line_of(refusal(dict_, options_), 0), waited_in_words());
  return options_.conflict;
}

// Reports that another machine has the lock (HOLDFAST_ELSEWHERE) after an attempt without waiting. If the store does
// not answer, the holder is unknown.
int LockTaker::refuse_elsewhere() const {
  if (options_.timeout == 0) {
    return fail_unavailable(
        fmt::format("the store of cluster {} did not answer within {:g} s", options_.cluster, kAskSeconds));
  }
  // The wait is over, but a slow store gets some more time, proportional to the timeout.
  const double patience = std::clamp(options_.timeout / 4, kAskAgentSeconds, kAskSeconds);
  const auto answer = ask_agent(dict_, HOLDFAST_ASK_HOLDER, options_.key, 0, patience);
  if (!answer) {
    say_in_time("cannot lock {}: {}", quote_key(options_.key), answer.status().message);
    return lock_status::kUnavailable;
  }
  if (!options_.quiet) say_in_time("{}{}", refusal_elsewhere(options_, *answer), waited_in_words());
  return options_.conflict;
}

// If the agent refuses a lock because of a store error, it records the error before it answers the next question.
std::string LockTaker::trouble_of_agent() const {
  const auto answer = ask_agent(dict_, HOLDFAST_ASK_STATUS, "", 0, kAskAgentSeconds);
  if (!answer && answer.status().code == Code::timeout) return answer.status().message;
  holdfast_cluster state{};
  return holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE ? error_or_text(HOLDFAST_UNAVAILABLE) : "";
}

std::string LockTaker::waited_in_words() const {
  return options_.timeout > 0 ? "; waited for " + inspect::duration_in_words(options_.timeout) : "";
}

bool LockTaker::is_held_here() const {
  holdfast_holder holder{};
  return holdfast_lock_holder(dict_, options_.key.data(), options_.key.size(), &holder) == HOLDFAST_OK;
}

int LockTaker::fail(int code) const {
  if (code == HOLDFAST_ELSEWHERE) {
    if (options_.quiet) return options_.conflict;
    const auto answer = ask_agent(dict_, HOLDFAST_ASK_HOLDER, options_.key, 0, kAskSeconds);
    say_in_time("{}", refusal_elsewhere(options_, answer ? *answer : Answer{}));
    return options_.conflict;
  }
  if (code == HOLDFAST_UNSUPPORTED) return fail_for_length();
  // The result of the attempt does not contain the reason, but the state of the cluster does.
  if (code == HOLDFAST_UNAVAILABLE) {
    return fail_unavailable(fmt::format("the store of cluster {} did not answer", options_.cluster));
  }
  say_in_time("cannot lock {}: {}", quote_key(options_.key), error_or_text(code));
  const bool is_cut_short = bytes_of(hold_.keeper()) < table_bytes_;  // if so, nobody can open a dictionary
  return is_cut_short ? lock_status::kCannotOpen : lock_status::kSystem;
}

int LockTaker::fail_unavailable(const std::string& otherwise) const {
  const std::string trouble = trouble_of_agent();
  say_in_time("cannot lock {}: {}", quote_key(options_.key), trouble.empty() ? otherwise : trouble);
  return lock_status::kUnavailable;
}

// Only the agent knows the maximum length of a key: in the store, the namespace and the dictionary's name precede the
// key.
int LockTaker::fail_for_length() const {
  const auto answer = ask_agent(dict_, HOLDFAST_ASK_HOLDER, options_.key, 0, kAskAgentSeconds);
  const bool is_told = !answer && answer.status().code == Code::unsupported;
  say_in_time("cannot lock {}: {}", quote_key(options_.key),
              is_told ? answer.status().message
                      : fmt::format("a key of {} bytes is too long for a cluster's store", options_.key.size()));
  return lock_status::kUsage;
}

std::vector<Part> LockTaker::obstacle() const {
  if (!in_cluster() || is_held_here()) return refusal(dict_, options_);
  return {key_part(options_), {fmt::format(" of cluster {}", options_.cluster)}};
}

// If the cluster cannot be reached, the wait continues, because the cluster may become reachable, but the user is told.
bool LockTaker::is_cluster_missing(double waited) {
  if (options_.quiet || complained_ || !in_cluster() || options_.timeout == 0) return false;
  if (waited < kComplainAfterSeconds) return false;
  holdfast_cluster state{};
  complained_ = holdfast_cluster_state(dict_, &state) == HOLDFAST_UNAVAILABLE;
  return complained_;
}

void LockTaker::give_back() {
  if (options_.is_flock()) ::flock(options_.file, LOCK_UN);
  has_file_ = false;
  release();
}

int LockTaker::release() {
  return is_visible() ? holdfast_unlock(dict_, options_.key.data(), options_.key.size(), &lease_) : HOLDFAST_OK;
}

int LockTaker::confirm() const {
  if (!is_visible()) return 0;
  double seconds = 0;
  const int code = holdfast_lock_remaining(dict_, options_.key.data(), options_.key.size(), &lease_, &seconds);
  if (code != HOLDFAST_NOT_OWNER && code != HOLDFAST_REMOVED) return 0;
  say_in_time("{} was lost before the command started", quote_key(options_.key));
  return lock_status::kLost;
}

}  // namespace holdfast::cli
