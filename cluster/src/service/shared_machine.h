// The agent's view of this machine, which consists of a cluster's dictionaries in the world (runtime directory) of this
// process.
//
// Each dictionary has a copy of the session in its header (gate/session.h). The session is alive only if every copy is
// alive: a process that finds that the deadline has passed in one dictionary ends the session for all. If a dictionary
// is created or becomes accessible while the session is alive, it participates from the next turn() on. A removed
// dictionary stops participating immediately.
//
// A dictionary may be impossible to open, because there is no memory or descriptor, a process is stopped in it, or its
// header was overwritten. Such a dictionary may have the session of an earlier agent, with locks that stand. That
// session ends at its deadline. Until then, the agent does not end the lease at the store, and gives away no lock that
// may be in that dictionary. Once the dictionary can be opened, it participates without its locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/machine.h"
#include "base/status.h"
#include "lock/request.h"
#include "platform/platform.h"
#include "service/dictionaries.h"
#include "service/question_server.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast::agent {

/// Limits how long the agent waits for processes that are stopped inside a dictionary. All waits together take only a
/// small fraction of the agent's time. Otherwise, a single stopped process could keep the agent from renewing the
/// lease, and the machine would lose all its locks.
class StuckBudget {
 public:
  /// Runs `call(timeout_ns) -> Code`, and returns its result.
  template <class Call>
  Code spend(Call&& call) noexcept {
    const std::uint64_t begin_ns = platform::monotonic_ns();
    if (begin_ns - since_ns_ >= kPeriodNs) {
      since_ns_ = begin_ns;
      left_ns_ = kPartNs;
    }
    const Code code = call(left_ns_);
    if (code == Code::timeout) left_ns_ -= std::min(left_ns_, platform::monotonic_ns() - begin_ns);
    return code;
  }

 private:
  // This is usually longer than the time for which a busy machine preempts a process. No benchmark depends on this
  // constant and the next, because none stops a process inside a dictionary.
  static constexpr std::uint64_t kPartNs = 50'000'000;
  static constexpr std::uint64_t kPeriodNs = 500'000'000;

  std::uint64_t since_ns_ = 0;
  std::uint64_t left_ns_ = kPartNs;
};

class SharedMachine final : public Machine {
 public:
  /// Makes this process the agent of the machine. Throws std::runtime_error if the kernel refuses a necessary resource.
  SharedMachine(World& world, const std::string& cluster);
  ~SharedMachine() override;

  /// Returns descriptors that are readable when turn() has something to do.
  std::vector<int> descriptors();
  /// Returns why new dictionaries are found only once a second, or an empty string if they are found immediately.
  const std::string& trouble() const noexcept { return dictionaries_.trouble(); }
  /// Continues the recalls, and checks the dictionaries.
  void turn();
  /// Returns the latest time for the next call to turn().
  Milliseconds due() const { return due_; }

  bool superseded() const override;
  /// Returns whether this agent is superseded although no other agent is left. Either the later agent has ended, or the
  /// agent's name in a dictionary was overwritten. In both cases, this agent's knowledge about the lease may be
  /// outdated.
  bool is_abandoned() const;
  /// Returns whether this world's runtime directory was removed or replaced, so that no program can reach this agent.
  /// The agent notices this within a second.
  bool has_lost_its_directory() const noexcept { return directory_is_gone_; }
  /// Returns whether the last check found that the file of a participating dictionary was deleted manually. There is
  /// one check every second. Returns true only once for each check.
  bool take_lost_file() noexcept { return std::exchange(file_is_gone_, false); }
  Session session() const override;
  Epoch begin_epoch(LeaseId lease, Milliseconds deadline) override;
  bool renew(Milliseconds from, Milliseconds to) override;
  bool lose() override;
  void note(Trouble trouble) override;

  std::vector<Want> wanted() override;
  Use use(const LockName& name) const override;
  Contender holder(const LockName& name) const override;
  bool orphaned(const LockName& name) const override;
  std::optional<std::vector<LockName>> standing() const override;
  std::optional<std::vector<LockName>> adopt(Milliseconds end) override;

  bool grant(const LockName& name, Epoch epoch, Revision revision) override;
  void refuse(const LockName& name, Refusal why) override;
  void recall(const LockName& name, std::function<void()> done) override;
  bool try_recall(const LockName& name) override;
  void drop(const LockName& name) override;

  std::vector<Query> queries() override { return questions_.read(); }
  void answer(std::uint64_t number, const Reply& reply) override { questions_.answer(number, write_answer(reply)); }

 private:
  /// The agent's position in the queue of a lock.
  struct Recall {
    std::uint32_t waiter = 0;
    bool queued = false;
    Milliseconds due = 0;
    std::function<void()> done;
    Lease lease;  // the agent's own lease, until the lock is withdrawn
  };
  using Recalls = std::map<LockName, Recall>;

  /// A participating dictionary. A newer segment with the same name does not participate yet.
  struct Part {
    Dictionary* dictionary = nullptr;
    std::shared_ptr<const Segment> segment;  // kept, so that no later segment gets the same address
  };

  /// Calls `visit(dictionary, segment)` for each participating dictionary that was not removed.
  template <class Visit>
  void each(Visit&& visit) const;
  bool is_file_gone() const;
  /// Adds dictionaries that were created since the last turn(), or that could not be opened before.
  void take_in_new();
  void check_socket();
  std::map<std::string, Part> attend_new();
  static Session latest(const std::map<std::string, Part>& parts);
  /// Returns false if the session cannot begin in the dictionary. The dictionary then does not participate yet.
  bool join(const Part& part, const Session& all) const;
  void end_all();
  bool may_be_unseen() const;
  void read_mail();
  void drop_again();
  /// Does one step of a recall. Returns true when the recall is over.
  bool step(const LockName& name, Recall& recall);
  bool withdraw(Dictionary& dictionary, const LockName& name, Recall& recall);
  /// Ends the wait of a finished recall.
  void leave(const LockName& name, Recall recall);
  void leave_again();
  Contender contender(Token token) const;

  World& world_;
  Token self_;
  Dictionaries dictionaries_;
  QuestionServer questions_;
  Parker parker_;
  std::uint32_t waiter_ = 0;  // the waiter that contenders notify
  Recalls recalls_;
  // The work that a stopped process has prevented so far: drops, and the ends of finished recalls.
  std::set<LockName> drops_;
  std::vector<std::pair<LockName, Recall>> leaves_;
  mutable StuckBudget budget_;
  std::map<std::string, Part> parts_;  // indexed by name
  /// The session while there is no dictionary that could contain it. The first new dictionary gets a copy. Initially,
  /// this is the session of an earlier agent.
  Session alone_;
  /// The time until which a dictionary that cannot be opened may have a live session.
  Milliseconds unseen_until_ = std::numeric_limits<Milliseconds>::max();
  bool directory_is_gone_ = false;
  bool file_is_gone_ = false;  // the file of a dictionary was deleted
  bool replaced_ = false;      // a later agent replaced this one before there was a dictionary
  bool adopts_ = true;         // adopt the locks that stand in a newly found dictionary
  Milliseconds due_ = 0;
  Milliseconds next_check_ = 0;
  bool ignores_hints_ = true;  // the next wanted() checks all locks, because hints may be lost
};

}  // namespace holdfast::agent
