#include <cstring>

#include "crash/hostile.h"
#include "platform/platform.h"

namespace holdfast::crash {

namespace {

constexpr int kKeys = 60;

class User {
 public:
  User(test::Dict& dict, std::uint64_t seed, std::atomic<const char*>& current)
      : dict_(dict),
        random_(seed),
        limit_(current),
        parker_(holdfast_parker_new()),
        waiter_(holdfast_waiter_open(parker_)) {
    for (int i = 0; i < kKeys; ++i)
      keys_.push_back("key-" + std::to_string(i) + std::string(static_cast<std::size_t>(i * i % 90), 'k'));
  }

  void call() {
    const std::string& key = keys_[random_() % keys_.size()];
    const std::uint64_t what = random_() % 24;
    if (what < 11)
      use_value(key, what);
    else if (what < 15)
      wait(key, what);
    else if (what < 19)
      use_list(key, what);
    else if (what < 22)
      use_permits(key, what);
    else
      use_lock(key);
  }
  std::uint64_t calls() const { return calls_; }

 private:
  /// Makes one call into the library.
  template <class Call>
  void within(const char* name, Call&& call) {
    limit_(name, [&] {
      call();
      return 0;
    });
    ++calls_;
  }

  void use_value(const std::string& key, std::uint64_t what) {
    double number = 0;
    if (what < 2)
      within("set", [&] { dict_.set(key, std::string(random_() % 300, 'v'), random_() % 3 == 0 ? 0.01 : 0); });
    else if (what == 2)
      within("set", [&] { dict_.set_number(key, 5); });
    else if (what < 6)
      within("get", [&] { dict_.get(key); });
    else if (what == 6)
      within("delete", [&] { dict_.remove(key); });
    else if (what == 7)
      within("incr", [&] { dict_.incr_from(key, 1, 0, 0, &number); });
    else if (what == 8)
      within("expire", [&] { dict_.expire(key, 0.01); });
    else if (what == 9 && random_() % 20 == 0)
      look_around();
    else if (what == 10 && random_() % 200 == 0)
      within("flush_all", [&] { dict_.flush_all(); });
  }

  void wait(const std::string& key, std::uint64_t what) {
    double sleep = 0;
    std::uint32_t woken = 0;
    if (what < 13) {
      within("lock_wait", [&] { dict_.wait_lock(key, 0.01, parker_, waiter_, &last_, &sleep); });
      within("parker_sleep", [&] { holdfast_parker_sleep(parker_, 0, &woken, 1); });
    } else if (what == 13) {
      within("lock_leave", [&] { dict_.leave(key, parker_, waiter_); });
    } else {
      within("renew", [&] { dict_.renew(key, last_, 0.02); });
      within("adopt", [&] { dict_.adopt(key, last_, 1 << 20 | 5); });
      within("unlock", [&] { dict_.unlock(key, &last_); });
    }
  }

  void use_list(const std::string& key, std::uint64_t what) {
    const int end = static_cast<int>(random_() % 2);
    if (what < 17) {
      for (std::uint64_t i = random_() % 6; i != 0; --i)
        within("push", [&] { dict_.push(key, end, std::string(random_() % 100, 'e')); });
    } else {
      within("pop", [&] { dict_.pop(key, end); });
      within("llen", [&] { dict_.llen(key); });
    }
  }

  void use_lock(const std::string& key) {
    holdfast_lease lease{};
    holdfast_holder holder{};
    if (random_() % 2 == 0) {
      within("explain", [&] { dict_.explain(key, last_, std::string(random_() % 100, 'w')); });
      within("holder", [&] { dict_.holder(key, &holder); });
      return;
    }
    within("lock_try", [&] { dict_.try_lock(key, 0.01, &lease); });
    if (random_() % 3 == 0) within("explain", [&] { dict_.explain(key, lease, std::string(random_() % 128, 'w')); });
    if (random_() % 2 == 0) within("unlock", [&] { dict_.unlock(key, &lease); });
  }

  void use_permits(const std::string& key, std::uint64_t what) {
    if (what != 21) return take_permits(key);
    holdfast_wait wait{};
    wait.parker = parker_;
    wait.waiter = waiter_;
    const std::uint32_t want = random_() % 3 == 0 ? HOLDFAST_ALL_PERMITS : 1;
    within("permits_wait", [&] { dict_.wait_permits(key, HOLDFAST_RWLOCK, want, 0, 0.01, &wait, &last_); });
    std::uint32_t some = 0;
    within("parker_sleep", [&] { holdfast_parker_sleep(parker_, random_() % 20 == 0 ? 0.009 : 0, &some, 1); });
  }

  /// Takes permits, and leaves some of them held until they expire.
  void take_permits(const std::string& key) {
    const int kind = random_() % 3 == 0 ? HOLDFAST_RWLOCK : HOLDFAST_SEMAPHORE;
    std::vector<holdfast_lease> leases(1 + random_() % 5);
    for (holdfast_lease& lease : leases)
      within("permits_try",
             [&] { dict_.try_permits(key, kind, 1 + random_() % 3, 8, random_() % 4 == 0 ? 0 : 0.05, &lease); });
    for (holdfast_lease& lease : leases) {
      if (random_() % 4 == 0) within("permits_keep", [&] { dict_.keep(key, lease, 1); });
      if (random_() % 4 == 0) within("permits_upgrade", [&] { dict_.upgrade(key, lease); });
      if (random_() % 4 == 0) within("renew", [&] { dict_.renew(key, lease, 0.03); });
      if (random_() % 4 == 0) within("explain", [&] { dict_.explain(key, lease, std::string(random_() % 128, 'w')); });
      if (random_() % 4 == 0) within("remaining", [&] { dict_.remaining(key, lease); });
      if (random_() % 4 != 0) within("unlock", [&] { dict_.unlock(key, &lease); });
    }
    if (random_() % 4 == 0) within("permits_count", [&] { dict_.used(key); });
  }

  void look_around() {
    within("keys", [&] { dict_.keys(); });
    std::uint64_t cursor = 0;
    within("scan", [&] { dict_.scan(&cursor, 100, "no key begins so"); });
    within("flush_expired", [&] { dict_.flush_expired(); });
    within("free_space", [&] { dict_.free_space(); });
    within("ttl", [&] { dict_.ttl(keys_.front()); });
  }

  test::Dict& dict_;
  std::mt19937_64 random_;
  test::CallLimit limit_;
  std::uint64_t calls_ = 0;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  holdfast_lease last_{};
  std::vector<std::string> keys_;
};

}  // namespace

void use_anyhow(test::Dict& dict, HostileLedger& ledger, int self, std::uint64_t seed) {
  User user(dict, seed, ledger.current[self]);
  for (;;) {
    const std::uint64_t begin = platform::monotonic_ns();
    user.call();
    ledger.turn_us.add((platform::monotonic_ns() - begin) / 1000);
    ledger.calls[self].store(user.calls());
  }
}

}  // namespace holdfast::crash
