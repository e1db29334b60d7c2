#include <cstring>

#include "crash/hostile.h"
#include "platform/platform.h"

namespace holdfast::crash {

namespace {

constexpr int kKeys = 60;

class User {
 public:
  User(test::Dict& dict, std::uint64_t seed)
      : dict_(dict), random_(seed), parker_(holdfast_parker_new()), waiter_(holdfast_waiter_open(parker_)) {
    for (int i = 0; i < kKeys; ++i)
      keys_.push_back("key-" + std::to_string(i) + std::string(static_cast<std::size_t>(i * i % 90), 'k'));
  }

  void call() {
    const std::string& key = keys_[random_() % keys_.size()];
    holdfast_lease lease{};
    double number = 0;
    double pause = 0;
    const int end = static_cast<int>(random_() % 2);
    switch (random_() % 24) {
      case 0:
      case 1:
        dict_.set(key, std::string(random_() % 300, 'v'), random_() % 3 == 0 ? 0.01 : 0);
        break;
      case 2:
        dict_.set_number(key, 5);
        break;
      case 3:
      case 4:
      case 5:
        dict_.get(key);
        break;
      case 6:
        dict_.remove(key);
        break;
      case 7:
        dict_.incr_from(key, 1, 0, 0, &number);
        break;
      case 8:
        dict_.expire(key, 0.01);
        break;
      case 9:
        if (random_() % 20 == 0) look_around();
        break;
      case 10:
        if (random_() % 200 == 0) dict_.flush_all();
        break;
      case 11:
      case 12:
        dict_.wait_lock(key, 0.01, parker_, waiter_, &last_, &pause);
        std::uint32_t woken;
        holdfast_parker_sleep(parker_, 0, &woken, 1);
        break;
      case 13:
        dict_.leave(key, parker_, waiter_);
        break;
      case 14:
        dict_.renew(key, last_, 0.02);
        dict_.unlock(key, &last_);
        break;
      case 15:
      case 16:
        for (std::uint64_t i = random_() % 6; i != 0; --i) dict_.push(key, end, std::string(random_() % 100, 'e'));
        break;
      case 17:
      case 18:
        dict_.pop(key, end);
        dict_.llen(key);
        break;
      case 19:
      case 20:
        use_permits(key);
        break;
      case 21: {
        holdfast_wait wait{};
        wait.parker = parker_;
        wait.waiter = waiter_;
        dict_.wait_permits(key, HOLDFAST_RWLOCK, random_() % 3 == 0 ? HOLDFAST_ALL_PERMITS : 1, 0, 0.01, &wait, &last_);
        std::uint32_t some;
        holdfast_parker_sleep(parker_, random_() % 20 == 0 ? 0.009 : 0, &some, 1);
        break;
      }
      case 22:
        dict_.explain(key, last_, std::string(random_() % 100, 'w'));
        holdfast_holder holder;
        dict_.holder(key, &holder);
        break;
      default:
        dict_.try_lock(key, 0.01, &lease);
        if (random_() % 3 == 0) dict_.explain(key, lease, std::string(random_() % 128, 'w'));
        if (random_() % 2 == 0) dict_.unlock(key, &lease);
    }
  }

 private:
  /// Some of them stay until they expire.
  void use_permits(const std::string& key) {
    const int kind = random_() % 3 == 0 ? HOLDFAST_RWLOCK : HOLDFAST_SEMAPHORE;
    std::vector<holdfast_lease> leases(1 + random_() % 5);
    for (holdfast_lease& lease : leases)
      dict_.try_permits(key, kind, 1 + random_() % 3, 8, random_() % 4 == 0 ? 0 : 0.05, &lease);
    for (holdfast_lease& lease : leases) {
      if (random_() % 4 == 0) dict_.keep(key, lease, 1);
      if (random_() % 4 == 0) dict_.renew(key, lease, 0.03);
      if (random_() % 4 == 0) dict_.explain(key, lease, std::string(random_() % 128, 'w'));
      if (random_() % 4 == 0) dict_.remaining(key, lease);
      if (random_() % 4 != 0) dict_.unlock(key, &lease);
    }
    if (random_() % 4 == 0) dict_.used(key);
  }

  void look_around() {
    dict_.keys();
    dict_.free_space();
    dict_.ttl(keys_.front());
    holdfast_capacity(dict_.handle);
  }

  test::Dict& dict_;
  std::mt19937_64 random_;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  holdfast_lease last_{};
  std::vector<std::string> keys_;
};

}  // namespace

void use_anyhow(test::Dict& dict, HostileLedger& ledger, int self, std::uint64_t seed) {
  User user(dict, seed);
  for (;;) {
    const std::uint64_t begin = platform::monotonic_ns();
    ledger.since_ns[self].store(begin);
    user.call();
    ledger.since_ns[self].store(0);
    ledger.call_us.add((platform::monotonic_ns() - begin) / 1000);
    ledger.calls[self].fetch_add(1);
  }
}

}  // namespace holdfast::crash
