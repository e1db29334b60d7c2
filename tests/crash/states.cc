#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "crash/scenario.h"
#include "support/process.h"

namespace holdfast::crash {

namespace {

constexpr double kLong = 1000;

class Builder {
 public:
  Builder(Victim& victim, Random& random)
      : victim_(victim), dict_(victim.dict()), random_(random), blank_(victim.take()) {}

  State finish(const std::string& name, std::vector<std::string> keys) {
    State state{name, victim_.take(), std::move(keys)};
    state.keys.push_back("never there");
    victim_.put(blank_);
    return state;
  }

  State empty() { return finish("empty", {"a", "b"}); }

  State mixed() {
    std::vector<std::string> keys = names(12);
    for (const std::string& key : keys) store_something(key);
    for (std::size_t i = 0; i < keys.size(); i += 3) dict_.remove(keys[i]);
    return finish("mixed", keys);
  }

  State chains() {
    std::vector<std::string> keys = colliding(6);
    for (const std::string& key : keys) store_something(key);
    std::vector<std::string> others = names(4);
    for (const std::string& key : others) store_something(key);
    keys.push_back(colliding_with(keys[0]));  // this key would be the last in the chain
    keys.insert(keys.end(), others.begin(), others.end());
    return finish("chains", keys);
  }

  State full() {
    std::vector<std::string> keys = fill("f", 60);
    return finish("full", sample(keys));
  }

  State full_of_expired() {
    std::vector<std::string> keys = fill("e", 60);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (i % 5 != 0) dict_.expire(keys[i], 0.001);
    pass_time();
    return finish("full of expired", sample(keys));
  }

  State fragmented() {
    std::vector<std::string> keys = fill("g", 0);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (i % 2 == 0 || random_() % 4 == 0) dict_.remove(keys[i]);
    for (const std::string& key : sample(keys)) store_something(key);
    return finish("fragmented", sample(keys));
  }

  /// Entries of many sizes, with gaps too short for any entry, so that room can be made only by moving and evicting
  /// entries. Some keys were used recently.
  State crowded() {
    holdfast_lease lease{};
    std::vector<std::string> keys = fill("h", 0, 20);
    for (const char* key : {"held 1", "held 2"}) dict_.try_lock(key, kLong, &lease);
    dict_.explain("held 2", lease, "stays");
    for (int i = 0; i < 3; ++i) dict_.try_permits("read", HOLDFAST_RWLOCK, 1, 0, kLong, &lease);
    for (int i = 0; i < 8; ++i) {
      dict_.push("list", i % 2, std::string(static_cast<std::size_t>(i) * 5, 'l'));
      const std::vector<std::string> more = fill("h" + std::to_string(i) + "-", 0, 3);
      keys.insert(keys.end(), more.begin(), more.end());
    }
    const std::vector<std::string> rest = fill("r", 0);
    keys.insert(keys.end(), rest.begin(), rest.end());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % 6 == 0) dict_.remove(keys[i]);
      if (i % 2 == 0) dict_.get(keys[i]);
    }
    std::vector<std::string> some = sample(keys);
    for (const char* key : {"held 1", "held 2", "read", "list"}) some.emplace_back(key);
    return finish("crowded", some);
  }

  State flushed() {
    std::vector<std::string> keys = names(10);
    for (const std::string& key : keys) store_something(key);
    dict_.flush_all();
    for (std::size_t i = 0; i < keys.size(); i += 2) store_something(keys[i]);
    return finish("flushed", keys);
  }

  State lists() {
    std::vector<std::string> keys = colliding(5);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t length = i + 1; length != 0; --length) push_something(keys[i]);
    push_something(keys[4]);
    push_something(keys[4]);
    dict_.expire(keys[4], 0.001);
    keys.push_back("value");
    dict_.set("value", "v", kLong, 5);
    pass_time();
    return finish("lists", keys);
  }

  State full_of_lists() {
    std::vector<std::string> keys;
    for (int i = 0; i < 5; ++i) keys.push_back("l" + std::to_string(i));
    for (std::size_t i = 0; push_something(keys[i % 5]); ++i) {
    }
    for (std::size_t i = 0; i < 8; ++i) dict_.pop(keys[i % 3], static_cast<int>(random_() % 2));
    return finish("full of lists", keys);
  }

  State locks() {
    const std::vector<std::string> keys = colliding(5);
    holdfast_lease lease{};
    dict_.try_lock(keys[0], 0, &lease);
    dict_.try_lock(keys[1], 0.001, &lease);
    test::Child dies([&](test::Channel&) { return dict_.try_lock(keys[2], kLong, &lease); });
    dies.wait();
    dict_.try_lock(keys[3], kLong, &lease);
    dict_.unlock(keys[3], &lease);
    dict_.try_lock(keys[4], kLong, &lease);
    dict_.set("value", "v");
    pass_time();
    std::vector<std::string> all = keys;
    all.push_back("value");
    return finish("locks", all);
  }

  /// Permits of all kinds: held by live processes, by dead processes or by both, expired, and free. Some keys have
  /// several holders.
  State permits() {
    std::vector<std::string> keys = colliding(6);
    holdfast_lease lease{};
    const auto take = [&](const std::string& key, std::uint32_t want, double exptime) {
      dict_.try_permits(key, HOLDFAST_SEMAPHORE, want, 5, exptime, &lease);
    };
    for (const double exptime : {kLong, 0.0, 0.001}) take(keys[0], 1, exptime);
    take(keys[1], 2, 0.001);
    test::Child dies([&](test::Channel& channel) {
      take(keys[2], 3, 0);
      take(keys[3], 1, kLong);
      channel.say(std::to_string(lease.owner));
      return 0;
    });
    Victim::disregard(std::stoull(dies.hear()));
    dies.wait();
    take(keys[2], 2, 0);
    take(keys[4], 5, kLong);
    dict_.unlock(keys[4], &lease);
    dict_.try_permits(keys[5], HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 0, &lease);
    dict_.explain(keys[5], lease, "writes");
    dict_.try_lock("lock", 0, &lease);
    dict_.explain("lock", lease, "reads");
    dict_.set("value", "v");
    pass_time();
    for (const char* key : {"value", "lock"}) keys.emplace_back(key);
    return finish("permits", keys);
  }

 private:
  static void pass_time() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

  static std::vector<std::string> names(int count) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; ++i)
      keys.push_back("key-" + std::to_string(i * 7919) + std::string(static_cast<std::size_t>(i), 'x'));
    return keys;
  }

  /// Returns keys that are in the same bucket.
  std::vector<std::string> colliding(std::size_t count) {
    std::vector<std::string> keys = {"c-" + std::to_string(random_() % 1000)};
    while (keys.size() < count) keys.push_back(colliding_with(keys.front()));
    return keys;
  }
  std::string colliding_with(const std::string& key) {
    for (;;) {
      std::string other = "c-" + std::to_string(random_());
      if (victim_.bucket_of(other) == victim_.bucket_of(key)) return other;
    }
  }

  void store_something(const std::string& key) {
    const double exptime = random_() % 3 == 0 ? kLong : 0;
    switch (random_() % 5) {
      case 0:
        dict_.set_number(key, static_cast<double>(random_() % 100), exptime, 5);
        return;
      case 2:
        for (std::uint64_t i = 1 + random_() % 3; i != 0; --i) push_something(key);
        dict_.expire(key, exptime);
        return;
      case 1:
        dict_.set_boolean(key, true, exptime);
        return;
      default:
        dict_.set(key, std::string(random_() % 120, static_cast<char>('a' + random_() % 26)), exptime);
    }
  }

  bool push_something(const std::string& key) {
    const int end = static_cast<int>(random_() % 2);
    if (random_() % 3 == 0) return dict_.push_number(key, end, static_cast<double>(random_() % 100)) > 0;
    return dict_.push(key, end, std::string(random_() % 60, static_cast<char>('a' + random_() % 26))) > 0;
  }

  /// Stores values of this size (or of various sizes if it is 0) until memory is full or `count` values are stored.
  std::vector<std::string> fill(const std::string& prefix, std::size_t size, int count = 1 << 30) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; ++i) {
      const std::string key = prefix + std::to_string(i);
      const std::string value(size != 0 ? size : random_() % 160, 'v');
      if (dict_.store(HOLDFAST_SAFE_SET, key, value, 0, 0) != HOLDFAST_OK) return keys;
      keys.push_back(key);
    }
    return keys;
  }

  std::vector<std::string> sample(const std::vector<std::string>& keys) const {
    std::vector<std::string> some;
    for (std::size_t i = 0; i < keys.size(); i += keys.size() / 12 + 1) some.push_back(keys[i]);
    return some;
  }

  Victim& victim_;
  test::Dict& dict_;
  Random& random_;
  Image blank_;
};

}  // namespace

std::vector<State> make_states(Victim& victim, Random& random) {
  Builder builder(victim, random);
  return {builder.empty(),           builder.mixed(),         builder.chains(),  builder.full(),
          builder.full_of_expired(), builder.fragmented(),    builder.crowded(), builder.flushed(),
          builder.lists(),           builder.full_of_lists(), builder.locks(),   builder.permits()};
}

}  // namespace holdfast::crash
