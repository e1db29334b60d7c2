// This machine, as the agent sees it: the dictionaries of a cluster in the world of this process.
//
// Each dictionary has the session in its own header (gate/session.h). The session is alive if that of every
// dictionary is: whatever sees the deadline passed in one of them ends it for all. A dictionary that is made, or can be
// opened at last, while it is alive takes part from the next turn() on. One that is removed takes part no more, at
// once.
//
// A dictionary that cannot be opened (there is no memory or descriptor for it, a process is stopped in it, its header
// was overwritten) may have the session of an earlier agent, with locks that stand. It ends by itself. Until then the
// lease is not ended at the store, and no lock that may be there is given away. Once it can be opened, it begins anew.
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

/// How long the agent waits for processes that are stopped inside a dictionary: all calls together for a small part of
/// the time. Else such a process would keep it from the lease, and the machine would lose all its locks for one part of
/// one dictionary.
class StuckBudget {
 public:
  /// The result of `call(timeout_ns) -> Code`.
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
  // Longer than a process is off its processor for on a busy machine, mostly. No row shows these two: none stops a
  // process inside a dictionary.
  static constexpr std::uint64_t kPartNs = 50'000'000;
  static constexpr std::uint64_t kPeriodNs = 500'000'000;

  std::uint64_t since_ns_ = 0;
  std::uint64_t left_ns_ = kPartNs;
};

class SharedMachine final : public Machine {
 public:
  /// From now on this process acts for the machine. Throws std::runtime_error if the kernel refuses what it takes.
  SharedMachine(World& world, const std::string& cluster);
  ~SharedMachine() override;

  /// Readable when turn() has something to do.
  std::vector<int> descriptors();
  /// Why new dictionaries are found once a second only; empty if they are found at once.
  const std::string& trouble() const noexcept { return dictionaries_.trouble(); }
  /// Goes on with what the agent waits for in this machine.
  void turn();
  /// When turn() has something to do at the latest.
  Milliseconds due() const { return due_; }

  bool superseded() const override;
  /// Whether it is, and no other agent is left. The name of one that never was may stand there, too: that of an agent
  /// may be overwritten. What this one knows of the lease may be of old in any case.
  bool is_abandoned() const;
  /// Whether the runtime directory of this world was removed or replaced: then no program can come to this agent. Seen
  /// within a second.
  bool has_lost_its_directory() const noexcept { return directory_is_gone_; }
  /// Whether the last look, one a second, found that the file of a dictionary which takes part was deleted by hand.
  /// Says so once for each look.
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
  /// The agent's turn in the queue of a lock.
  struct Recall {
    std::uint32_t waiter = 0;
    bool queued = false;
    Milliseconds due = 0;
    std::function<void()> done;
    Lease lease;  // by which the agent has the lock, once it is its turn, until that is withdrawn
  };
  using Recalls = std::map<LockName, Recall>;

  /// A dictionary that takes part. Another segment under its name does not, yet.
  struct Part {
    Dictionary* dictionary = nullptr;
    std::shared_ptr<const Segment> segment;  // kept: no later segment has its address
  };

  /// Calls `visit(dictionary, segment)` for each that takes part and is not removed.
  template <class Visit>
  void each(Visit&& visit) const;
  bool is_file_gone() const;
  /// A dictionary that was made, or made again, since the last turn, or that could not be opened before.
  void take_in_new();
  void look_at_socket();
  std::map<std::string, Part> attend_new();
  static Session latest(const std::map<std::string, Part>& parts);
  /// False: it cannot begin the session; so it takes no part yet.
  bool join(const Part& part, const Session& all) const;
  void end_all();
  bool may_be_unseen() const;
  void read_mail();
  void drop_again();
  /// One step of a recall. True when it is over.
  bool step(const LockName& name, Recall& recall);
  bool withdraw(Dictionary& dictionary, const LockName& name, Recall& recall);
  /// Ends the wait of a recall that is over.
  void leave(const LockName& name, Recall recall);
  void leave_again();
  Contender contender(Token token) const;

  World& world_;
  Token self_;
  Dictionaries dictionaries_;
  QuestionServer questions_;
  Parker parker_;
  std::uint32_t waiter_ = 0;  // that contenders post to
  Recalls recalls_;
  // What a stopped process has prevented so far: drops, and the ends of recalls that are over.
  std::set<LockName> drops_;
  std::vector<std::pair<LockName, Recall>> leaves_;
  mutable StuckBudget budget_;
  std::map<std::string, Part> parts_;  // by name
  /// The lease while no dictionary has its words: the first one that is made has them from here. At first that of an
  /// earlier agent.
  Session alone_;
  /// Until when a dictionary that cannot be opened may have a session that is alive.
  Milliseconds unseen_until_ = std::numeric_limits<Milliseconds>::max();
  bool directory_is_gone_ = false;
  bool file_is_gone_ = false;  // of a dictionary
  bool replaced_ = false;      // by a later agent, before there was a dictionary
  bool adopts_ = true;         // what stands in a dictionary that is found counts
  Milliseconds due_ = 0;
  Milliseconds next_look_ = 0;
  bool look_at_all_ = true;  // wanted() does not rely on hints, which may be lost
};

}  // namespace holdfast::agent
