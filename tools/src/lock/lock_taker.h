// The part of `holdfast lock` that becomes the command: it takes the lock as a process of its own, and keeps it over
// exec. So the holder that others see is the command, and nothing of holdfast runs under its identity any more.
#pragma once

#include <sys/types.h>

#include <optional>
#include <utility>

#include "holdfast.h"
#include "lock/lock_hold.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// Opens the dictionary of the options, or makes it. Null after a sentence; `status` is then the exit status.
holdfast_dict* open_dictionary(const LockOptions& options, int& status);

class LockTaker {
 public:
  explicit LockTaker(LockOptions options) : options_(std::move(options)) {}

  /// Enters the world, and waits for the lock. Nothing if it is held, else the exit status, which -E may have made 0;
  /// all else was said. Again after give_back(): with what is left of its time.
  std::optional<int> take();
  void give_back();

  /// After a while: the exit status, 0 if the lock is still held, which may have been lost meanwhile.
  int confirm() const;

  /// What it has, as of now.
  Grant grant() const { return {lease_, holdfast_now(), in_cluster()}; }
  const Hold& hold() const noexcept { return hold_; }

  /// Runs the command in place of this process. Returns if it cannot, with the exit status; the lock is free then.
  int become_command();

 private:
  /// A key has one thing at a time. What the holder has is for its duration the kind that others wait for, too.
  enum class Kind { lock, reader, writer };

  /// Whether the dictionary belongs to a cluster.
  bool in_cluster() const noexcept { return !options_.cluster.empty(); }
  int enter();
  int open();
  int use_dictionary();
  std::optional<int> wait_for_lock(holdfast_wait& wait);
  /// Without a wait, which in a cluster needs one: the agent asks the store.
  bool tries_here() const noexcept { return options_.timeout == 0 && !in_cluster(); }
  int attempt(holdfast_wait& wait);
  int try_once();
  void begin_with_a_kind();
  std::uint32_t wanted_permits() const;
  /// By any that live.
  bool is_shared() const;
  bool make_way(const holdfast_wait& wait);
  int refuse();
  int refuse_elsewhere() const;
  /// Why the agent, or its store, gives no lock now; empty: it is not known.
  std::string trouble_of_agent() const;
  std::string waited_in_words() const;
  bool is_held_here() const;
  int fail(int code) const;
  /// `otherwise`: the reason if the agent tells none.
  int fail_unavailable(const std::string& otherwise) const;
  int fail_for_length() const;
  void complain_of_cluster(double waited);

  LockOptions options_;
  Kind kind_ = Kind::lock;
  int misfits_ = 0;  // attempts in sequence that found neither a lock nor used permits in their way
  bool complained_ = false;
  holdfast_dict* dict_ = nullptr;
  holdfast_lease lease_{};
  Hold hold_;
  off_t table_bytes_ = 0;  // of the table of processes
  double start_ = 0;       // of the first wait, or of the last attempt without one: holdfast_now()
};

}  // namespace holdfast::cli
