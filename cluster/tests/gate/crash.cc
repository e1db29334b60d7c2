// Checks every state in which a killed process can leave a cluster's lock. Runs the operations of the agent and of
// contenders one instruction at a time. After each instruction, checks the image of the dictionary as if the process
// had died there. The lock may be granted only if the agent has given it in this session, no fencing token may occur
// twice, and the next processes must be able to continue.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "crash/stepper.h"
#include "gate/cluster_lock.h"
#include "lock/lock.h"
#include "lock/lock_entry.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/shard_check.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::crash {
namespace {

using test::Waiting;

constexpr std::uint64_t kRevision = 100;
constexpr std::uint64_t kLongMs = 600'000;
constexpr double kLong = 60;  // seconds
const std::string kKey = "key";
/// The exit status of a process that could not prepare its operation.
constexpr int kUnprepared = 99;

/// The leases of the stepped process, which are not in the dictionary: its own lease and the agent's.
struct Tools {
  holdfast_lease lease;
  Lease agents;
};

/// Whether this machine can grant the lock.
enum class Given { no, yes };

struct Scenario {
  const char* name;
  Given before;
  Given after;
  std::function<void()> prepare;
  std::function<int()> run;  // returns a holdfast_code
};

class Cluster {
 public:
  Cluster()
      : dict_("d", {.size = 12288, .cluster = "main"}),
        bytes_(reinterpret_cast<std::byte*>(&dict_.segment().header())),
        size_(dict_.segment().geometry().size),
        blank_(bytes_, bytes_ + size_) {}

  void run() {
    for (const Scenario& scenario : scenarios()) step(scenario);
  }
  std::uint64_t images() const { return images_; }
  std::uint64_t instructions() const { return instructions_; }
  std::uint64_t violations() const { return violations_; }

 private:
  using Image = std::vector<std::byte>;

  // --- the stepped operations ---

  Session session() { return Session(dict_.segment()); }
  Dictionary& dictionary() { return dict_.dictionary(); }
  void begin(std::uint16_t epoch) { begin_at(epoch, boottime_ms() + kLongMs); }
  void begin_at(std::uint16_t epoch, std::uint64_t deadline_ms) {
    session().begin(session().now(), epoch, epoch, deadline_ms);
  }
  static int done(Code code) { return static_cast<int>(code); }
  int stand(std::uint16_t epoch, std::uint64_t revision) {
    return done(holdfast::stand(dictionary(), kKey, epoch, revision));
  }
  void stand_first() {
    begin(1);
    stand(1, kRevision);
  }
  void hold() {
    if (dict_.try_lock(kKey, 0, &tools_.lease) != HOLDFAST_OK) ::_exit(kUnprepared);
    tools_.agents = {tools_.lease.owner, tools_.lease.sequence};
  }
  /// Queues the checking process, and waits until a release would grant it the lock.
  void queue() {
    Waiter waiter{};
    waiter.owner = self_;
    waiter.number = waiter_.waiter();
    waiter.arrival = platform::monotonic_ns() - kNsPerSecond;
    waiter.tries = true;
    const Code code = dictionary().transact(kKey, [&](Transaction& change) {
      if (!change.is(EntryType::lock)) make_free_lock(change);
      return LockEntry::of(change).queue().add(waiter, 0) != 0 ? Code::ok : Code::no_memory;
    });
    if (code != Code::ok) ::_exit(kUnprepared);
  }
  int withdraw() { return done(holdfast::withdraw(dictionary(), kKey, tools_.agents)); }
  int take() { return dict_.try_lock(kKey, 0, &tools_.lease); }
  int unlock() { return dict_.unlock(kKey, &tools_.lease); }

  std::vector<Scenario> scenarios() {
    const auto session_begins = [this] { begin(1); };
    const auto is_given = [this] { stand_first(); };
    const auto is_held = [this] { stand_first(), hold(); };
    const auto is_awaited = [this] { stand_first(), hold(), queue(); };
    const auto is_of_last_epoch = [this] { stand_first(), hold(), queue(), session().lose(1), begin(2); };
    const auto is_lost = [this] { stand_first(), hold(), session().lose(1); };
    const auto give = [this] { return stand(1, kRevision); };
    const auto give_new = [this] { return stand(1, kRevision + 1); };
    return {
        {"give the lock for the first time", Given::no, Given::yes, session_begins, give},
        {"give it to a waiter", Given::no, Given::yes, [this] { begin(1), queue(); }, give},
        {"give it again", Given::yes, Given::yes, is_given, give},
        {"give it new tokens", Given::yes, Given::yes, is_given, give_new},
        {"give new tokens while it is held", Given::yes, Given::yes, is_held, give_new},
        {"give it in another epoch while it is held", Given::no, Given::yes, is_of_last_epoch,
         [this] { return stand(2, kRevision + 1); }},
        {"withdraw", Given::yes, Given::no, is_held, [this] { return withdraw(); }},
        {"withdraw it before a waiter", Given::yes, Given::no, is_awaited, [this] { return withdraw(); }},
        {"withdraw an idle lock", Given::yes, Given::no, is_given,
         [this] { return done(withdraw_idle(dictionary(), kKey)); }},
        {"withdraw a held lock as if it were idle", Given::yes, Given::yes, is_held,
         [this] { return done(withdraw_idle(dictionary(), kKey)); }},
        {"drop a held lock", Given::yes, Given::no, is_held, [this] { return done(drop(dictionary(), kKey)); }},
        {"refuse", Given::no, Given::no, [this] { begin(1), queue(); },
         [this] { return done(refuse(dictionary(), kKey, Code::elsewhere)); }},
        {"take", Given::yes, Given::yes, is_given, [this] { return take(); }},
        {"take it again", Given::yes, Given::yes, [this] { stand_first(), hold(), unlock(); },
         [this] { return take(); }},
        {"take a lock that was not given", Given::no, Given::no, session_begins, [this] { return take(); }},
        {"wait for a lock that was not given", Given::no, Given::no, session_begins,
         [this] { return Waiting().once(dict_, kKey, &tools_.lease); }},
        {"release", Given::yes, Given::yes, is_held, [this] { return unlock(); }},
        {"release to a waiter", Given::yes, Given::yes, is_awaited, [this] { return unlock(); }},
        {"lose the session while it is held", Given::yes, Given::no, is_held,
         [this] { return session().lose(1), HOLDFAST_OK; }},
        {"see that the deadline has passed", Given::no, Given::no, [this] { stand_first(), begin_at(1, 1); },
         [this] { return take(); }},
        {"renew a lost lock", Given::no, Given::no, is_lost, [this] { return dict_.renew(kKey, tools_.lease, kLong); }},
        {"release a lost lock", Given::no, Given::no, is_lost, [this] { return unlock(); }},
        {"begin another session", Given::no, Given::no, is_lost, [this] { return begin(2), HOLDFAST_OK; }},
    };
  }

  void step(const Scenario& scenario) {
    std::memcpy(bytes_, blank_.data(), size_);
    std::vector<Image> images;
    const auto prepare = [&] {
      dict_.get("enters the world");
      scenario.prepare();
    };
    const auto note = [&] { images.emplace_back(bytes_, bytes_ + size_); };
    const Stepped stepped = step_through(prepare, scenario.run, note, [&] {
      if (std::memcmp(images.back().data(), bytes_, size_) != 0) note();
    });
    name_ = scenario.name;
    index_ = 0;
    instructions_ += stepped.instructions;
    if (!stepped.problem.empty()) return fail("the operation did not run: " + stepped.problem);
    for (const int bad : {HOLDFAST_SYSTEM, HOLDFAST_BUSY, HOLDFAST_CORRUPT, HOLDFAST_TIMEOUT, HOLDFAST_NO_MEMORY})
      if (stepped.status == bad) fail(std::string("it returned ") + holdfast_code_text(bad));
    last_ = 0;
    Given given = scenario.before;
    for (; index_ < images.size(); ++index_) {
      std::memcpy(bytes_, images[index_].data(), size_);
      const Given now = judge();
      const bool first = index_ == 0;
      const bool last = index_ + 1 == images.size();
      if ((first && now != scenario.before) || (last && now != scenario.after) ||
          (now != given && now != scenario.after))
        fail(now == Given::yes ? "the lock is granted" : "the lock cannot be granted");
      given = now;
    }
    images_ += images.size();
  }

  // --- the checks, after the stepped process's death ---

  /// Returns whether the lock can be granted in this image.
  Given judge() {
    note_grant();
    const std::uint64_t before = last_;
    holdfast_lease lease{};
    const int code = dict_.try_lock(kKey, 0, &lease);
    const Given given = code == HOLDFAST_ELSEWHERE ? Given::no : Given::yes;
    if (code == HOLDFAST_OK)
      use(lease);
    else if (code == HOLDFAST_LOCKED)  // reserved for the waiter
      use_as(waiter_);
    else if (code != HOLDFAST_ELSEWHERE)
      fail(std::string("an attempt returns ") + holdfast_code_text(code));
    continue_as_agent();
    const std::string problem = test::check_shard(dict_.segment().shards()[0]);
    if (!problem.empty()) fail(problem);
    last_ = before;
    return given;
  }

  /// Records the fencing token of a grant that the image contains.
  void note_grant() {
    Position position{};
    if (!dict_.segment().shards()[0].find(Key(kKey, dict_.segment().seed()), position) || position.block == 0) return;
    const LockFields& lock = position.view.lock();
    if (const LockWord word = load_word_of(lock); !word.is_free()) last_ = std::max(last_, sequence_of(lock, word));
  }

  /// Acts as a new agent, which finds the lock, repeats what the dead agent may have done, and then gives the lock
  /// again.
  void continue_as_agent() {
    LockState state;
    const Code known = state_of_lock(dictionary(), kKey, state);
    if (known != Code::ok && known != Code::not_found) fail("the lock's state cannot be read");
    SessionWord word = session().now();
    if (word.lost()) {
      begin(static_cast<std::uint16_t>(word.epoch() + 1));
      word = session().now();
      holdfast_lease lease{};
      if (dict_.try_lock(kKey, 0, &lease) != HOLDFAST_ELSEWHERE) fail("a lost lock is granted");
    }
    for (const std::uint64_t revision : {kRevision, kRevision + 2}) {
      if (stand(word.epoch(), revision) != HOLDFAST_OK) fail("the lock cannot be given");
      use_as(waiter_);
      Waiting later;
      use_as(later);
    }
    take_back();
  }

  void take_back() {
    Waiting agent(true);
    holdfast_lease lease{};
    if (agent.lock(dict_, kKey, kLong, &lease) != HOLDFAST_OK) return fail("the agent does not get the lock");
    note_number(lease);
    Lease held{lease.owner, lease.sequence};
    if (holdfast::withdraw(dictionary(), kKey, held) != Code::ok) fail("the lock cannot be withdrawn");
    if (dict_.try_lock(kKey, 0, &lease) != HOLDFAST_ELSEWHERE) fail("a withdrawn lock is granted");
    if (refuse(dictionary(), kKey, Code::elsewhere) != Code::ok || withdraw_idle(dictionary(), kKey) != Code::ok)
      fail("the lock cannot be refused or withdrawn again");
  }

  void use_as(Waiting& waiting) {
    holdfast_lease lease{};
    const int code = waiting.lock(dict_, kKey, kLong, &lease);
    if (code != HOLDFAST_OK) return fail(std::string("a wait returns ") + holdfast_code_text(code));
    use(lease);
  }
  void use(holdfast_lease& lease) {
    note_number(lease);
    if (dict_.unlock(kKey, &lease) != HOLDFAST_OK) fail("the lock cannot be released");
  }
  void note_number(const holdfast_lease& lease) {
    if (lease.sequence <= last_)
      fail("fencing token " + std::to_string(lease.sequence) + " after " + std::to_string(last_));
    last_ = lease.sequence;
  }

  void fail(const std::string& what) {
    constexpr std::uint64_t kPrinted = 20;
    if (violations_++ < kPrinted) std::printf("VIOLATION: %s, image %zu: %s\n", name_, index_, what.c_str());
  }

  test::Dict dict_;
  std::byte* bytes_;
  std::uint64_t size_;
  Image blank_;
  Tools tools_{};
  Waiting waiter_;
  const Token self_ = (*World::current())->token();

  const char* name_ = "";
  std::size_t index_ = 0;
  std::uint64_t last_ = 0;  // last fencing token that was given
  std::uint64_t images_ = 0;
  std::uint64_t instructions_ = 0;
  std::uint64_t violations_ = 0;
};

}  // namespace
}  // namespace holdfast::crash

int main() {
  const holdfast::test::ScratchDirectory directory;
  const double start = holdfast_now();
  holdfast::crash::Cluster cluster;
  cluster.run();
  constexpr std::uint64_t kAtLeast = 200;
  std::printf("%" PRIu64 " instructions, %" PRIu64 " images, %" PRIu64 " violations, %.1f s\n", cluster.instructions(),
              cluster.images(), cluster.violations(), holdfast_now() - start);
  return cluster.violations() == 0 && cluster.images() >= kAtLeast ? 0 : 1;
}
