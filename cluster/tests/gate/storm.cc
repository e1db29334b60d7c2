// Kills contenders for a cluster's locks, and their agent, which begins sessions, gives locks, takes them back and
// loses them. Every few milliseconds, a random process is killed and replaced. In each session, a lock must never have
// two holders, on this machine or elsewhere, and its fencing tokens must rise.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <random>
#include <string>

#include "crash/kills.h"
#include "gate/cluster_lock.h"
#include "lock/lock.h"
#include "platform/platform.h"
#include "support/dict.h"
#include "support/shard_check.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::crash {
namespace {

constexpr std::size_t kLocks = 3;
constexpr int kContenders = 4;
constexpr int kAgent = kContenders;
constexpr std::size_t kEpochs = 1 << 16;
constexpr std::size_t kRevisions = 1 << 20;
constexpr std::uint64_t kLeaseMs = 40;
/// Used instead of a token when a different machine has the lock.
constexpr Token kElsewhere = ~Token{0};

/// The history of a lock in one session.
struct Section {
  std::atomic<Token> inside;
  std::atomic<std::uint64_t> sequence;  // fencing token of the last holder that entered
};

struct Ledger {
  std::atomic<std::uint32_t> revision;                          // the store's revision, which survives the agents
  std::array<std::atomic<std::uint16_t>, kRevisions> epoch_of;  // the session in which each revision was used
  std::array<std::array<Section, kEpochs>, kLocks> sections;
  std::atomic<std::uint64_t> entered;
  std::atomic<std::uint64_t> lost;  // grants whose holders noticed a loss
  std::atomic<std::uint64_t> elsewhere;
  std::atomic<std::uint64_t> sessions;
  Violations violations;
};

std::string key_of(std::size_t lock) { return "lock-" + std::to_string(lock); }

bool is_alive(Token token) { return (*World::current())->judge(token) == Liveness::alive; }

/// The part that contenders and agents share.
class Role {
 public:
  Role(test::Dict& dict, Ledger& ledger, std::uint64_t seed)
      : dict_(dict), dictionary_(dict.dictionary()), ledger_(ledger), random_(seed) {}

 protected:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  Session session() { return Session(dict_.segment()); }
  void expect(const char* what, int code, std::initializer_list<int> expected) {
    if (std::find(expected.begin(), expected.end(), code) == expected.end())
      ledger_.violations.add("%s returns %s", what, holdfast_code_text(code));
  }
  void expect(const char* what, Code code, std::initializer_list<int> expected) {
    expect(what, static_cast<int>(code), expected);
  }

  test::Dict& dict_;
  Dictionary& dictionary_;
  Ledger& ledger_;
  std::mt19937_64 random_;
};

class Contender : Role {
 public:
  using Role::Role;

  void step() {
    const std::size_t lock = below(kLocks);
    const std::string key = key_of(lock);
    holdfast_lease lease{};
    const int code = below(4) == 0 ? dict_.try_lock(key, 0, &lease)
                                   : waiting_.lock(dict_, key, 0.001 * static_cast<double>(below(60)), &lease);
    expect("lock", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_ELSEWHERE, HOLDFAST_TIMEOUT});
    if (code == HOLDFAST_OK) be_inside(lock, key, lease);
  }

 private:
  // Deliberately uses separate loads and stores, which only the lock makes safe.
  void be_inside(std::size_t lock, const std::string& key, holdfast_lease lease) {
    const std::uint16_t epoch = ledger_.epoch_of[(lease.sequence >> kGrantBits) % kRevisions].load();
    Section& section = ledger_.sections[lock][epoch];
    if (const Token before = section.inside.load(); before == kElsewhere || (before != kNobody && is_alive(before)))
      ledger_.violations.add("%s: in session %u the lock is granted while %s has it", key.c_str(), unsigned{epoch},
                             before == kElsewhere ? "another machine" : "a living process");
    section.inside.store(lease.owner);
    if (lease.sequence <= section.sequence.load())
      ledger_.violations.add("the fencing token of %s does not rise", key.c_str());
    section.sequence.store(lease.sequence);
    const std::uint64_t end = platform::monotonic_ns() + below(100'000);
    while (platform::monotonic_ns() < end) platform::cpu_relax();
    if (section.inside.load() != lease.owner)
      ledger_.violations.add("%s: two processes have the lock in session %u", key.c_str(), unsigned{epoch});
    section.inside.store(kNobody);
    ledger_.entered.fetch_add(1);
    leave(key, epoch, lease);
  }

  void leave(const std::string& key, std::uint16_t epoch, holdfast_lease& lease) {
    const int code = dict_.unlock(key, &lease);
    expect("unlock", code, {HOLDFAST_OK, HOLDFAST_NOT_OWNER});
    if (code != HOLDFAST_NOT_OWNER) return;
    ledger_.lost.fetch_add(1);
    const SessionWord now = session().now();
    if (now.epoch() == epoch && !now.lost())
      ledger_.violations.add("%s was taken from its holder in session %u", key.c_str(), unsigned{epoch});
  }

  test::Waiting waiting_;
};

class Agent : Role {
 public:
  Agent(test::Dict& dict, Ledger& ledger, std::uint64_t seed) : Role(dict, ledger, seed) {
    // The last agent may have been killed while a different machine had a lock.
    for (auto& sections : ledger_.sections)
      if (Section& section = sections[session().now().epoch()]; section.inside.load() == kElsewhere)
        section.inside.store(kNobody);
  }

  void step() {
    const SessionWord now = session().now();
    if (now.lost()) return begin(now, kLeaseMs);
    if (below(100) == 0) return session().lose(now.epoch());
    session().renew(now, boottime_ms() + kLeaseMs);
    for (std::size_t lock = 0; lock < kLocks; ++lock) look(lock, now.epoch());
    ::usleep(static_cast<useconds_t>(below(500)));
  }

  void begin(SessionWord last, std::uint64_t lease_ms) {
    const auto epoch = static_cast<std::uint16_t>(last.epoch() + 1);
    session().begin(last, epoch, epoch, boottime_ms() + lease_ms);
    ledger_.sessions.fetch_add(1);
  }
  void give(std::size_t lock, std::uint16_t epoch) {
    const std::uint32_t revision = ledger_.revision.fetch_add(1) + 1;
    ledger_.epoch_of[revision % kRevisions].store(epoch);
    expect("stand", stand(dictionary_, key_of(lock), epoch, revision), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
  }

 private:
  void look(std::size_t lock, std::uint16_t epoch) {
    LockState state;
    expect("state", state_of_lock(dictionary_, key_of(lock), state),
           {HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_TIMEOUT});
    if (!state.stands) {
      if (state.waited_for || below(20) == 0) give(lock, epoch);
    } else if (below(100) == 0) {
      give(lock, epoch);  // tokens of a new revision
    } else if (below(8) == 0) {
      below(2) == 0 ? take_back(lock, epoch) : take_back_idle(lock, epoch);
    }
  }

  // Takes the lock back as a fair waiter.
  void take_back(std::size_t lock, std::uint16_t epoch) {
    holdfast_lease lease{};
    const int code = fair_.lock(dict_, key_of(lock), 0.01, &lease);
    expect("recall", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_TIMEOUT});
    if (code != HOLDFAST_OK) return;
    Lease held{lease.owner, lease.sequence};
    const Code withdrawn = withdraw(dictionary_, key_of(lock), held);
    expect("withdraw", withdrawn, {HOLDFAST_OK, HOLDFAST_TIMEOUT});
    if (withdrawn == Code::ok) give_to_another(lock, epoch);
  }
  void take_back_idle(std::size_t lock, std::uint16_t epoch) {
    const Code code = withdraw_idle(dictionary_, key_of(lock));
    expect("withdraw", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_TIMEOUT});
    if (code == Code::ok) give_to_another(lock, epoch);
  }

  void give_to_another(std::size_t lock, std::uint16_t epoch) {
    Section& section = ledger_.sections[lock][epoch];
    if (const SessionWord now = session().now(); now.epoch() != epoch || now.lost()) return;
    if (const Token before = section.inside.load(); before != kNobody && is_alive(before))
      ledger_.violations.add("%s is given to another machine while a process here has it", key_of(lock).c_str());
    section.inside.store(kElsewhere);
    ::usleep(static_cast<useconds_t>(below(300)));
    if (section.inside.load() != kElsewhere)
      ledger_.violations.add("%s is granted while another machine has it", key_of(lock).c_str());
    section.inside.store(kNobody);
    ledger_.elsewhere.fetch_add(1);
    expect("refuse", refuse(dictionary_, key_of(lock), Code::elsewhere),
           {HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_TIMEOUT});
  }

  test::Waiting fair_{true};
};

template <class Player>
[[noreturn]] void play(test::Dict& dict, Ledger& ledger, std::uint64_t seed) {
  Player player(dict, ledger, seed);
  for (;;) player.step();
}

class Storm {
 public:
  explicit Storm(std::uint64_t seed)
      : random_(seed), ledger_(make_shared_memory<Ledger>()), dict_("storm", {.size = 65536, .cluster = "main"}) {}

  /// Returns the number of violations.
  std::uint64_t run(double seconds, int at_least) {
    for (int i = 0; i <= kAgent; ++i) start(i);
    while (kills_.goes_on(seconds, at_least)) {
      ::usleep(static_cast<useconds_t>(1000 + random_() % 3000));
      const int victim = static_cast<int>(random_() % (kAgent + 1));
      kills_.kill(victim);
      start(victim);
      kills_.check_progress(ledger_.entered.load());
    }
    for (int i = 0; i <= kAgent; ++i) kills_.kill(i);
    settle();
    std::printf("%d kills, %" PRIu64 " sessions, %" PRIu64 " sections, %" PRIu64 " grants lost, %" PRIu64
                " times elsewhere; %" PRIu64 " violations; %.1f s\n",
                kills(), ledger_.sessions.load(), ledger_.entered.load(), ledger_.lost.load(), ledger_.elsewhere.load(),
                ledger_.violations.count.load(), kills_.spent());
    ledger_.violations.print();
    return ledger_.violations.count.load();
  }
  int kills() const { return kills_.count(); }

 private:
  void start(int number) {
    const std::uint64_t seed = random_();
    kills_.start(number,
                 [&] { number == kAgent ? play<Agent>(dict_, ledger_, seed) : play<Contender>(dict_, ledger_, seed); });
  }
  /// Checks, after all processes have died, that new processes get the locks with higher tokens.
  void settle() {
    Agent agent(dict_, ledger_, random_());
    const Session session = Session(dict_.segment());
    const std::uint16_t last = session.now().epoch();
    session.lose(last);
    agent.begin(session.now(), 60'000);
    for (std::size_t lock = 0; lock < kLocks; ++lock) {
      agent.give(lock, session.now().epoch());
      test::Waiting waiting;
      holdfast_lease lease{};
      if (waiting.lock(dict_, key_of(lock), 20, &lease) != HOLDFAST_OK)
        ledger_.violations.add("%s cannot be granted at the end", key_of(lock).c_str());
      else if (lease.sequence <= ledger_.sections[lock][last].sequence.load())
        ledger_.violations.add("the fencing token of %s does not rise at the end", key_of(lock).c_str());
    }
    const std::string problem = test::check_segment(dict_.segment());
    if (!problem.empty()) ledger_.violations.add("at the end: %s", problem.c_str());
  }

  std::mt19937_64 random_;
  Ledger& ledger_;
  test::Dict dict_;
  Kills kills_{ledger_.violations, kAgent + 1};
};

StormEnd run(const StormSettings& settings) {
  Storm storm(settings.seed);
  const std::uint64_t violations = storm.run(settings.seconds, settings.at_least);
  return {storm.kills(), violations};
}

}  // namespace
}  // namespace holdfast::crash

int main(int argc, char** argv) {
  return holdfast::crash::main_of_storm(argc, argv, "Kills contenders for a cluster's locks, and their agent", 300,
                                        holdfast::crash::run);
}
