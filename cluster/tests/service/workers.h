// Runs workers on several machines. The workers repeatedly change registers under locks, and record the times. The
// registers and records are in memory that outlives the workers, so a worker may be stopped or killed at any point.
//
// Each lock guards two registers. A write to the fenced register carries the lock's token, and is refused if the
// register has seen a higher token. The second register accepts every write, to show that updates are lost without
// fencing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/history.h"
#include "service/machine.h"
#include "support/process.h"

namespace holdfast::test {

class EtcdServer;

/// The work of each worker.
struct Work {
  int keys = 1;
  std::uint64_t seed = 0;
  int section_us = 3000;                    // maximum, under the lock
  int pause_us = 1000;                      // maximum, between two sections
  double patience = 1;                      // the longest wait (s)
  std::size_t most = std::size_t{1} << 16;  // the maximum number of recorded sections, after which the workers end
};

class Workers {
 public:
  explicit Workers(const Work& work);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Starts another worker on the machine. Returns the worker's number.
  std::size_t start(const Machine& machine, int number);
  Child& operator[](std::size_t worker) { return *workers_[worker]; }
  int machine_of(std::size_t worker) const { return machines_[worker]; }
  /// Replaces a worker that was killed.
  void start_again(std::size_t worker, const Machine& machine);

  /// Stops a worker between its read and its write, and returns the worker's number. Chooses a worker on this machine,
  /// or on any machine if `machine` is negative.
  std::size_t stop_inside(int machine = -1);
  /// Kills a worker between its read and its write.
  std::size_t kill_inside(int machine = -1);
  /// Resumes a worker that stop_inside() has stopped, and waits until it has ended its section.
  bool go_on(std::size_t worker);
  /// Returns the number of sections so far on this machine, or on all machines if `machine` is negative.
  std::size_t done(int machine = -1) const;
  /// Waits until this many more sections have been executed.
  bool get_on(std::size_t sections = 1, int machine = -1) const;

  /// Makes each worker end its section, and waits for all workers.
  void end();

  // Returns the records. Call this function after end().
  std::vector<Section> sections() const;
  /// Returns the updates of the register that this key guards.
  std::vector<Update> updates(int key, bool fenced) const;
  std::uint64_t last(int key, bool fenced) const;
  /// Returns the number of writes that the fenced registers refused.
  std::size_t refused() const;
  /// Returns the errors that all checks found, except for lost updates of registers without fencing, which are only
  /// counted.
  std::vector<std::string> errors(const StoreHistory& store) const;
  /// Returns only the errors of fenced registers, which must not lose an update even if two workers have a lock.
  std::vector<std::string> register_errors() const;
  std::size_t lost_without_fencing() const;

 private:
  struct Journal;
  class Worker;

  std::unique_ptr<Child> run(std::size_t worker, const Machine& machine);

  const Work work_;
  const std::size_t size_;
  Journal* const journal_;
  std::vector<std::unique_ptr<Child>> workers_;
  std::vector<int> machines_;
};

/// Returns the history of the store's keys in the namespace `space`, from its first revision on.
StoreHistory history_of(EtcdServer& etcd, const std::string& space = kSpace);

}  // namespace holdfast::test
