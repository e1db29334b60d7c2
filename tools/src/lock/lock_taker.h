// Takes the lock of `holdfast lock` in such a way that other processes, and programs that they execute, can continue to
// hold it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "holdfast.h"
#include "lock/lock_hold.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

class LockTaker {
 public:
  /// Sleeps until the parker (null: none) reports the waiter, or for at most `seconds`. Returns false if the wait must
  /// end.
  using Pause = std::function<bool(holdfast_parker* parker, double seconds)>;
  /// Does the same as take_flock() for the file in the options. Returns ECANCELED if the wait must end.
  using TakeFile = std::function<int(double deadline, const std::function<void()>& waiting)>;
  explicit LockTaker(LockOptions options, Pause pause = sleep, TakeFile take_file = nullptr)
      : options_(std::move(options)), pause_(std::move(pause)), take_flock_(std::move(take_file)) {}

  /// Enters the world, and opens the dictionary. Returns the exit status, which is 0 on success. On failure, prints a
  /// message.
  int enter();
  /// Takes the lock, and waits for it if necessary. Calls enter() first if it was not called before. Returns nothing if
  /// this process now holds the lock, otherwise the exit status, which may be 0 because of -E. On failure, prints a
  /// message, unless a pause has ended the wait. Can be called only once.
  std::optional<int> take();
  void give_back();
  /// Releases only the visible lock, if it is held. Returns the code from holdfast_unlock.
  int release();
  /// Returns the dictionary, or null if it is not open.
  holdfast_dict* dictionary() const noexcept { return dict_; }
  /// Returns whether the visible lock is held. `holdfast flock` works without it if the dictionary cannot be used.
  bool is_visible() const noexcept { return lease_.sequence != 0; }

  /// Checks whether the lock is still held. Returns 0 if it is, otherwise the exit status.
  int confirm() const;

  /// Returns the current grant.
  Grant grant() const { return {lease_, holdfast_now(), in_cluster()}; }
  Hold& hold() noexcept { return hold_; }
  const Hold& hold() const noexcept { return hold_; }

 private:
  /// Returns whether the dictionary belongs to a cluster.
  bool in_cluster() const noexcept { return !options_.cluster.empty(); }
  std::optional<int> take_visible();
  /// Tries to take the flock(2) after the visible lock was refused. The visible lock may belong to a process that has
  /// already released its flock(2), or to another file with the same path.
  bool try_file() noexcept;
  /// Takes the flock(2) of the file.
  std::optional<int> take_file();
  void explain(const std::string& why);
  static bool sleep(holdfast_parker* parker, double seconds);
  int open();
  int use_dictionary();
  std::optional<int> wait_for_lock(holdfast_wait& wait);
  /// Returns whether attempts do not wait at all. In a cluster, even an attempt must wait, because the agent asks the
  /// store.
  bool tries_here() const noexcept { return options_.timeout == 0 && !in_cluster(); }
  /// Returns the exptime of the lock, which leaves the wrapper enough time to end the job first.
  double exptime() const noexcept;
  int attempt(holdfast_wait& wait);
  int try_once();
  /// The arguments of a call that takes permits: the kind, how many to take, and how many exist.
  struct Permits {
    int kind;
    std::uint32_t want;
    std::uint32_t total;
  };
  Permits wanted_permits() const;
  bool wants_permits() const noexcept { return options_.shared || options_.permits != 0; }
  int refuse();
  int refuse_elsewhere() const;
  /// Returns why the agent or its store does not grant locks now, or an empty string if the reason is unknown.
  std::string trouble_of_agent() const;
  std::string waited_in_words() const;
  bool is_held_here() const;
  int fail(int code) const;
  /// `otherwise`: the reason if the agent gives none.
  int fail_unavailable(const std::string& otherwise) const;
  int fail_for_length() const;
  /// Describes the lock, cluster or process for which the caller waits.
  std::vector<Part> obstacle() const;
  /// Returns true once, when the wait has taken a while and no agent or store can grant the lock.
  bool is_cluster_missing(double waited);

  LockOptions options_;
  Pause pause_;
  TakeFile take_flock_;  // null: take_flock() in this process
  bool complained_ = false;
  holdfast_dict* dict_ = nullptr;
  holdfast_lease lease_{};
  Hold hold_;
  off_t table_bytes_ = 0;  // the size of the process table
  bool has_file_ = false;  // the flock(2) is held
  double start_ = 0;       // in holdfast_now() time: when the wait began
};

}  // namespace holdfast::cli
