// Overwrites each word of a cluster's session, and of one of its locks, with many values. Every call must return in
// time. The lock may be granted only if the agent has given it, unless the overwritten word is one of the two that
// record this. The agent must always be able to give the lock again.
#include <sys/wait.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "crash/ledger.h"
#include "gate/cluster_lock.h"
#include "support/call_limit.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/started.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::damage {
namespace {

constexpr std::uint64_t kSize = 12288;
constexpr std::uint64_t kLongMs = 600'000;
const std::string kKey = "key";

/// The shared memory in which the damaging process reports to the process that watches it.
struct Ledger {
  std::atomic<std::uint64_t> done;
  std::atomic<const char*> call;  // the call in progress
  char place[96];
  crash::Violations violations;
};

enum class State { given, withdrawn, lost, kCount };

class Cases {
 public:
  explicit Cases(Ledger& ledger)
      : ledger_(ledger),
        limit_(ledger.call),
        dict_("d", {.size = kSize, .cluster = "main"}),
        bytes_(reinterpret_cast<std::byte*>(&dict_.segment().header())),
        blank_(bytes_, bytes_ + kSize) {}

  /// Runs one case after another. Continues where the previous process ended.
  void run() {
    std::uint64_t number = 0;
    for (int state = 0; state < static_cast<int>(State::kCount); ++state) {
      std::memcpy(bytes_, blank_.data(), kSize);
      make(static_cast<State>(state));
      const std::vector<std::byte> image(bytes_, bytes_ + kSize);
      for (const std::size_t offset : words())
        for (const std::size_t width : {4, 8})
          for (std::size_t kind = 0; kind < kKinds; ++kind, ++number) {
            if (number < ledger_.done || offset % width != 0) continue;
            std::memcpy(bytes_, image.data(), kSize);
            damage(static_cast<State>(state), offset, width, kind);
            ledger_.done = number + 1;
          }
    }
  }

 private:
  Session session() { return Session(dict_.segment()); }
  Dictionary& dictionary() { return dict_.dictionary(); }

  void make(State state) {
    lease_ = {};
    session().begin(session().now(), 1, 1, boottime_ms() + kLongMs);
    stand(dictionary(), kKey, 1, 100);
    dict_.try_lock(kKey, 0, &lease_);
    if (state == State::lost) return session().lose(1);
    dict_.unlock(kKey, &lease_);
    if (state == State::withdrawn) withdraw_idle(dictionary(), kKey);
  }

  std::vector<std::size_t> words() {
    std::vector<std::size_t> offsets;
    const auto add = [&](const void* first, std::size_t bytes) {
      const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(first) - bytes_);
      for (std::size_t i = 0; i < bytes; i += 4) offsets.push_back(at + i);
    };
    add(&fields(), sizeof(ClusterFields));
    EntryView view = find();
    add(view.entry, view.granules * kGranule);
    session_word_ = offset_of(fields().word);
    standing_word_ = offset_of(reinterpret_cast<StandingFields*>(&view.lock() + 1)->standing);
    return offsets;
  }
  ClusterFields& fields() { return cluster_fields(dict_.segment().header()); }
  EntryView find() {
    Position position{};
    dict_.segment().shards()[0].find(Key(kKey, dict_.segment().seed()), position);
    return position.view;
  }
  std::size_t offset_of(const Word64& word) const {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&word) - bytes_);
  }

  static constexpr std::size_t kKinds = 14;
  std::uint64_t value_of(std::size_t kind, std::uint64_t old) const {
    const Token self = (*World::current())->token();
    const std::array<std::uint64_t, kKinds> values = {0,
                                                      1,
                                                      ~std::uint64_t{0},
                                                      old ^ 1,
                                                      old + 1,
                                                      old - 1,
                                                      ~old,
                                                      old ^ std::uint64_t{1} << 31,
                                                      old ^ std::uint64_t{1} << 63,
                                                      self,
                                                      self + 1,
                                                      std::uint64_t{owner_bits(self)} << 32 | (old & 0xFFFF'FFFF),
                                                      std::uint64_t{1} << 16 | 1,
                                                      SessionWord::make(1, boottime_ms() + kLongMs).bits};
    return values[kind];
  }

  void damage(State state, std::size_t offset, std::size_t width, std::size_t kind) {
    std::uint64_t old = 0;
    std::memcpy(&old, bytes_ + offset, width);
    const std::uint64_t value = value_of(kind, old);
    std::memcpy(bytes_ + offset, &value, width);
    std::snprintf(ledger_.place, sizeof ledger_.place, "state %d, offset %zu (session %zu, standing %zu) = %" PRIx64,
                  static_cast<int>(state), offset, session_word_, standing_word_, value);
    const std::size_t word = offset / 8 * 8;
    const bool says_so = state == State::given || word == session_word_ || word == standing_word_;
    holdfast_lease lease{};
    if (attempt("an attempt", lease) && !says_so) fail("the lock is granted");
    use_all();
    give_again();
  }

  bool attempt(const char* name, holdfast_lease& lease) {
    const int code = limit_(name, [&] { return dict_.try_lock(kKey, 0, &lease); });
    return code == HOLDFAST_OK;
  }

  /// Makes all calls and ignores their results.
  void use_all() {
    holdfast_lease lease = lease_;
    limit_("remaining", [&] { return dict_.remaining(kKey, lease); });
    limit_("renew", [&] { return dict_.renew(kKey, lease, 0); });
    limit_("unlock", [&] { return dict_.unlock(kKey, &lease); });
    limit_("a step of a wait", [&] { return waiting_.once(dict_, kKey, &lease); });
    limit_("leave", [&] { return waiting_.leave(dict_, kKey); });
    std::array<std::uint64_t, kWants> hashes{};
    const std::size_t count = limit_("take_wants", [&] { return session().take_wants(hashes); });
    limit_("wanted_keys", [&] { return wanted_keys(dictionary(), {}); });
    limit_("wanted_keys", [&] { return wanted_keys(dictionary(), {hashes.data(), std::min(count, kWants)}); });
    limit_("standing_keys", [&] { return standing_keys(dictionary(), 1); });
    LockState state;
    limit_("state_of_lock", [&] { return state_of_lock(dictionary(), kKey, state); });
    limit_("refuse", [&] { return refuse(dictionary(), kKey, Code::elsewhere); });
    limit_("withdraw_idle", [&] { return withdraw_idle(dictionary(), kKey); });
    limit_("renew the session", [&] { return session().renew(session().now(), boottime_ms() + kLongMs); });
  }

  /// Acts as a new agent that gives the lock in a new session. The damage may have turned the key into something other
  /// than a lock.
  void give_again() {
    const std::uint16_t last = session().now().epoch();
    session().lose(last);
    session().attend(session().agent(), (**World::current()).token(), 0);
    const auto epoch = static_cast<std::uint16_t>(last + 1);
    session().begin(session().now(), epoch, epoch, boottime_ms() + kLongMs);
    holdfast_lease lease{};
    limit_("drop", [&] { return drop(dictionary(), kKey); });
    if (attempt("an attempt in another session", lease)) fail("the lock is granted in another session");
    Code code = limit_("stand", [&] { return stand(dictionary(), kKey, epoch, 200); });
    if (code == Code::exists) {
      limit_("delete", [&] { return dict_.remove(kKey); });
      code = limit_("stand", [&] { return stand(dictionary(), kKey, epoch, 200); });
    }
    if (code != Code::ok) return fail("the lock cannot be given again");
    if (!attempt("an attempt at the end", lease)) fail("the lock cannot be granted again");
  }

  void fail(const char* what) { ledger_.violations.add("%s: %s", ledger_.place, what); }

  Ledger& ledger_;
  test::CallLimit limit_;
  test::Dict dict_;
  std::byte* bytes_;
  std::vector<std::byte> blank_;
  test::Waiting waiting_;
  holdfast_lease lease_{};
  std::size_t session_word_ = 0;
  std::size_t standing_word_ = 0;
};

/// Runs all cases. Whenever a process has ended, starts the next process.
void watch(Ledger& ledger) {
  constexpr std::uint64_t kMost = 20;
  while (ledger.violations.count.load() < kMost) {
    test::Child child([&](test::Channel&) {
      Cases(ledger).run();
      return 0;
    });
    const int status = child.wait();
    if (status == 0) return;
    const char* const call = ledger.call.load();
    ledger.violations.add("%s: the process ended, status %d, in %s", ledger.place, status,
                          call != nullptr ? call : "no call");
    ledger.done.fetch_add(1);
  }
}

}  // namespace
}  // namespace holdfast::damage

int main() {
  using namespace holdfast;
  const test::ScratchDirectory directory;
  const double start = holdfast_now();
  auto& ledger = crash::make_shared_memory<damage::Ledger>();
  damage::watch(ledger);
  std::printf("%" PRIu64 " cases, %" PRIu64 " violations, %.1f s\n", ledger.done.load(), ledger.violations.count.load(),
              holdfast_now() - start);
  ledger.violations.print();
  return ledger.violations.count.load() == 0 ? 0 : 1;
}
