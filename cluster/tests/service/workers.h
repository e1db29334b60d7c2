// Workers of several machines, that change registers under locks again and again and write down when they did. The
// registers and what was written down lie in memory that outlives them, so a worker may be stopped or killed anywhere.
//
// Each lock guards two registers. A write into the fenced one comes with the token of the lock, and is refused if a
// higher one was seen. The other takes what comes: it is there to show that without fencing, updates are lost.
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

/// How a worker works.
struct Work {
  int keys = 1;
  std::uint64_t seed = 0;
  int section_us = 3000;                    // at most, with the lock
  int pause_us = 1000;                      // at most, between
  double patience = 1;                      // of a wait (s)
  std::size_t most = std::size_t{1} << 16;  // sections that are written down; then a worker is done
};

class Workers {
 public:
  explicit Workers(const Work& work);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Starts one more, on that machine. Its number.
  std::size_t start(const Machine& machine, int number);
  Child& operator[](std::size_t worker) { return *workers_[worker]; }
  int machine_of(std::size_t worker) const { return machines_[worker]; }
  /// In the place of one that was killed.
  void start_again(std::size_t worker, const Machine& machine);

  /// Stops one, of that machine if it is not negative, between its read and its write, and returns its number.
  std::size_t stop_inside(int machine = -1);
  /// Kills one there.
  std::size_t kill_inside(int machine = -1);
  /// Lets one go on that was stopped inside, and waits until it has ended its section.
  bool go_on(std::size_t worker);
  /// Sections so far, of one machine if that is not negative.
  std::size_t done(int machine = -1) const;
  /// Waits until that many more are done.
  bool get_on(std::size_t sections = 1, int machine = -1) const;

  /// Lets each end its section, and waits for them.
  void end();

  // After end(): what they wrote down.
  std::vector<Section> sections() const;
  /// Of the register that this key guards.
  std::vector<Update> updates(int key, bool fenced) const;
  std::uint64_t last(int key, bool fenced) const;
  /// Writes that the fenced registers have refused.
  std::size_t refused() const;
  /// Whatever went wrong, by all checks; but for lost updates of registers without fencing, which are counted.
  std::vector<std::string> errors(const StoreHistory& store) const;
  /// Of those, what concerns fenced registers: they lose nothing even where two have a lock.
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

/// What the store has told since its first revision about keys of that namespace.
StoreHistory history_of(EtcdServer& etcd, const std::string& space = kSpace);

}  // namespace holdfast::test
