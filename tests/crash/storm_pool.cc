#include "crash/storm_pool.h"

#include <algorithm>
#include <optional>

#include "crash/storm.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast::crash {

namespace {

constexpr std::uint32_t kAll = HOLDFAST_ALL_PERMITS;
constexpr std::uint32_t kSemaphorePermits = 3;
constexpr std::uint64_t kPatienceNs = 20 * kNsPerSecond;

bool is_rwlock(std::size_t number) { return number < kPools / 2; }
std::uint32_t total_of(std::size_t number) { return is_rwlock(number) ? kAll : kSemaphorePermits; }
int kind_of(std::size_t number) { return is_rwlock(number) ? HOLDFAST_RWLOCK : HOLDFAST_SEMAPHORE; }
std::string pool_key(std::size_t number) { return "pool-" + std::to_string(number); }

int try_permits(test::Dict& dict, std::size_t number, std::uint32_t want, holdfast_lease* lease) {
  const std::string key = pool_key(number);
  return holdfast_permits_try(dict.handle, key.data(), key.size(), kind_of(number), want, total_of(number), 0, 0, 0,
                              lease);
}

int wait_for_permits(test::Dict& dict, std::size_t number, std::uint32_t want, holdfast_wait* wait,
                     holdfast_lease* lease) {
  const std::string key = pool_key(number);
  return holdfast_permits_wait(dict.handle, key.data(), key.size(), kind_of(number), want, total_of(number), 0, wait,
                               lease);
}

void expect(Ledger& ledger, const char* what, int code, std::initializer_list<int> expected) {
  if (std::find(expected.begin(), expected.end(), code) == expected.end())
    ledger.violations.add("%s returns %s (%s)", what, holdfast_code_text(code), holdfast_error());
}

/// Returns the number of permits that live processes held at one instant, or nothing if a share changed in the
/// meantime.
std::optional<std::uint64_t> sum_of_living(const Pool& pool) {
  struct Seen {
    std::uint64_t count;
    std::uint64_t token;
    bool operator==(const Seen&) const = default;
  };
  const auto collect = [&pool] {
    std::array<Seen, kWorkers> seen{};
    for (std::size_t i = 0; i < kWorkers; ++i) seen[i] = {pool.shares[i].count.load(), pool.shares[i].token.load()};
    return seen;
  };
  const auto first = collect();
  if (collect() != first) return std::nullopt;
  // Each count includes a number of changes, so a word that is read twice with the same content did not change in
  // between. A process that is alive now was alive at that moment.
  std::uint64_t sum = 0;
  for (const Seen& one : first) {
    const std::uint64_t count = one.count & 0xFFFFFFFF;
    if (count != 0 && (*World::current())->judge(one.token) == Liveness::alive) sum += count;
  }
  return sum;
}

}  // namespace

PoolUser::PoolUser(test::Dict& dict, Ledger& ledger, int self, std::mt19937_64& random, holdfast_parker* parker,
                   std::uint32_t waiter)
    : dict_(dict),
      ledger_(ledger),
      self_(static_cast<std::size_t>(self)),
      random_(random),
      parker_(parker),
      waiter_(waiter) {
  for (Pool& pool : ledger_.pools) {
    note(pool, 0);  // clears the share that the dead predecessor had recorded
    pool.shares[self_].token.store((*World::current())->token());
  }
}

void PoolUser::note(Pool& pool, std::uint32_t count) {
  std::atomic<std::uint64_t>& word = pool.shares[self_].count;
  word.store(((word.load() >> 32) + 1) << 32 | count);
}

void PoolUser::check_sum(std::size_t number) {
  Pool& pool = ledger_.pools[number];
  const auto sum = sum_of_living(pool);
  if (!sum) return;
  pool.checks.fetch_add(1);
  if (*sum > total_of(number))
    ledger_.violations.add("%s: %llu permits are held, but there are only %u", pool_key(number).c_str(),
                           static_cast<unsigned long long>(*sum), total_of(number));
}

/// Stays inside for a while. In this time, the worker's share is recorded.
void PoolUser::stay(std::size_t number, bool writes) {
  Pool& pool = ledger_.pools[number];
  check_sum(number);
  const std::uint64_t seen = pool.written.load();
  const std::uint64_t end = platform::monotonic_ns() + below(100'000);
  while (platform::monotonic_ns() < end) platform::cpu_relax();
  if (is_rwlock(number) && pool.written.load() != seen)
    ledger_.violations.add("%s: another process wrote while there was a %s", pool_key(number).c_str(),
                           writes ? "writer" : "reader");
  // Deliberately uses a separate load and store, which only the lock makes safe.
  if (writes) pool.written.store(seen + 1);
  check_sum(number);
}

bool PoolUser::acquire(std::size_t number, std::uint32_t want, holdfast_lease* lease) {
  if (below(3) == 0) {
    const int code = try_permits(dict_, number, want, lease);
    expect(ledger_, "permits_try", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    return code == HOLDFAST_OK;
  }
  const std::uint64_t end = platform::monotonic_ns() + below(20) * kNsPerMs;
  holdfast_wait wait{};
  wait.parker = parker_;
  wait.waiter = waiter_;
  wait.fair = below(2) == 0 ? 1 : 0;
  for (;;) {
    const int code = wait_for_permits(dict_, number, want, &wait, lease);
    expect(ledger_, "permits_wait", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code == HOLDFAST_OK;
    if (platform::monotonic_ns() >= end) break;
    std::uint32_t woken = 0;
    holdfast_parker_sleep(parker_, std::min(wait.sleep, 0.005), &woken, 1);
  }
  expect(ledger_, "leave", dict_.leave(pool_key(number), parker_, waiter_), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
  return false;
}

void PoolUser::keep(std::size_t number, const holdfast_lease& lease, std::uint32_t count) {
  const std::string key = pool_key(number);
  note(ledger_.pools[number], count);  // before the release, so that the share never exceeds the permits held
  expect(ledger_, "permits_keep", holdfast_permits_keep(dict_.handle, key.data(), key.size(), &lease, count),
         {HOLDFAST_OK});
  stay(number, false);
}

/// Makes the reader the writer, or gives up. No other process may write between the reader's read and its write.
void PoolUser::upgrade(std::size_t number, const holdfast_lease& lease) {
  Pool& pool = ledger_.pools[number];
  const std::uint64_t seen = pool.written.load();
  const std::uint64_t end = platform::monotonic_ns() + below(20) * kNsPerMs;
  holdfast_wait wait{};
  wait.parker = parker_;
  wait.waiter = waiter_;
  for (;;) {
    const int code = dict_.upgrade(pool_key(number), lease, &wait);
    expect(ledger_, "permits_upgrade", code,
           {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_DEADLOCK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code == HOLDFAST_OK) break;
    if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return;
    if (platform::monotonic_ns() >= end) {
      expect(ledger_, "leave", dict_.leave(pool_key(number), parker_, waiter_), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
      return;
    }
    std::uint32_t woken = 0;
    holdfast_parker_sleep(parker_, std::min(wait.sleep, 0.005), &woken, 1);
  }
  if (pool.written.load() != seen)
    ledger_.violations.add("%s: another process wrote before a reader became the writer", pool_key(number).c_str());
  note(pool, kAll);
  stay(number, true);
}

void PoolUser::use(std::size_t number) {
  const bool writes = is_rwlock(number) && below(4) == 0;
  const std::uint32_t want = writes              ? kAll
                             : is_rwlock(number) ? 1
                                                 : 1 + static_cast<std::uint32_t>(below(kSemaphorePermits));
  holdfast_lease lease{};
  if (!acquire(number, want, &lease)) return;
  Pool& pool = ledger_.pools[number];
  note(pool, want);
  stay(number, writes);
  if (want > 1 && below(2) == 0) keep(number, lease, 1);
  if (is_rwlock(number) && !writes && below(4) == 0) upgrade(number, lease);
  pool.grants.fetch_add(1);
  note(pool, 0);
  expect(ledger_, "unlock of permits", dict_.unlock(pool_key(number), &lease), {HOLDFAST_OK});
}

void check_pools(test::Dict& dict, Ledger& ledger) {
  for (std::size_t number = 0; number < kPools; ++number) {
    const std::string key = pool_key(number);
    std::uint32_t used = 0;
    std::uint32_t waiters = 0;
    holdfast_lease lease{};
    // The queue may still contain dead waiters whose reservations must first lapse.
    const std::uint64_t end = platform::monotonic_ns() + kPatienceNs;
    int code = HOLDFAST_LOCKED;
    while (code == HOLDFAST_LOCKED && platform::monotonic_ns() < end)
      code = try_permits(dict, number, total_of(number), &lease);
    expect(ledger, "taking all permits at the end", code, {HOLDFAST_OK});
    holdfast_permits_count(dict.handle, key.data(), key.size(), &used, &waiters);
    if (used != total_of(number)) ledger.violations.add("%s: %u permits count as held", key.c_str(), used);
    expect(ledger, "releasing all permits at the end", dict.unlock(key, &lease), {HOLDFAST_OK});
    holdfast_permits_count(dict.handle, key.data(), key.size(), &used, &waiters);
    if (used != 0) ledger.violations.add("%s: %u permits were not freed", key.c_str(), used);
    dict.remove(key);
  }
}

}  // namespace holdfast::crash
