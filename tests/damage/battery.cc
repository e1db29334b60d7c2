#include "damage/battery.h"

#include <algorithm>
#include <array>

#include "support/shard_check.h"

namespace holdfast::damage {

namespace {

constexpr double kShort = 5;
constexpr int kFillers = 40;
constexpr std::uint64_t kSequenceMax = std::uint64_t{1} << 53;

}  // namespace

Battery::Battery(Box& box, test::CallLimit& limit)
    : box_(box), limit_(limit), parker_(holdfast_parker_new()), waiter_(holdfast_waiter_open(parker_)) {}

Battery::~Battery() {
  holdfast_waiter_close(parker_, waiter_);
  holdfast_parker_free(parker_);
}

void Battery::fail(const std::string& what) {
  if (problem_.empty()) problem_ = what;
}

int Battery::heard(const char* name, int code) {
  const bool unsound = code == HOLDFAST_CORRUPT || code == HOLDFAST_SYSTEM || code == HOLDFAST_TIMEOUT ||
                       code == HOLDFAST_REMOVED || code == HOLDFAST_BUSY || code == HOLDFAST_MISMATCH;
  if (!unsound) return code;
  named_ = true;
  if (code == HOLDFAST_REMOVED) removed_ = true;
  if (holdfast_error()[0] == '\0')
    fail(std::string(name) + " returns \"" + holdfast_code_text(code) + "\" without a message");
  // No process is inside a shard, so a call must not time out.
  if (code == HOLDFAST_TIMEOUT) fail(std::string(name) + " times out: " + holdfast_error());
  return code;
}

template <class Call>
int Battery::call(const char* name, Call&& call) {
  return heard(name, limit_(name, call));
}

std::string Battery::run() {
  problem_.clear();
  lost_ = named_ = ownership_violated_ = removed_ = false;
  repairs_ = box_.dict().stats().repairs;
  look();
  if (problem_.empty()) change();
  if (problem_.empty()) fill_up();
  if (problem_.empty() && !removed_) finish();
  return problem_;
}

// --- reads ---

void Battery::look() {
  for (const Item& item : box_.items()) look_at(item);
  look_at_all();
}

void Battery::look_at(const Item& item) {
  test::Dict& dict = box_.dict();
  limit_("look", [&] {
    std::array<holdfast_holder, 8> holders{};
    std::array<holdfast_waiter, 8> waiters{};
    std::uint32_t count = 0;
    return holdfast_look(dict.handle, item.key.data(), item.key.size(), holders.data(), holders.size(), &count,
                         waiters.data(), sizeof(holdfast_waiter), waiters.size(), &count);
  });
  const int code = call("get", [&] { return dict.get(item.key).code; });
  const bool stays = item.kind == Kind::text || item.kind == Kind::number || item.kind == Kind::mine ||
                     item.kind == Kind::theirs || item.kind == Kind::rwlock || item.kind == Kind::permits;
  if (code == HOLDFAST_NOT_FOUND && stays) lost_ = true;
  limit_("get_stale", [&] {
    bool stale = false;
    return dict.get_stale(item.key, &stale).code;
  });
  limit_("ttl", [&] { return dict.ttl(item.key); });
  if (dict.dictionary().segment(EpochGuard()) != nullptr && dict.segment().has_versions()) compare_versions(item);
  const int length = limit_("llen", [&] { return dict.llen(item.key); });
  if (item.kind == Kind::list && length == 0) lost_ = true;
  if (item.kind == Kind::mine) limit_("remaining", [&] { return dict.remaining(item.key, box_.lease()); });
}

void Battery::compare_versions(const Item& item) {
  test::Dict& dict = box_.dict();
  holdfast_version_of_key known{};
  call("get_changed", [&] { return dict.get_changed(item.key, &known).code; });
  limit_("is_current", [&] { return dict.is_current(known); });
  call("wait_for_change", [&] { return dict.wait_for_change(item.key, 0, &known); });
  if (item.kind != Kind::text) return;
  const test::Got same = dict.get(item.key);
  if (same.code == HOLDFAST_OK)
    call("store_unless_changed", [&] { return dict.store_unless_changed(item.key, &known, &same); });
}

void Battery::look_at_all() {
  test::Dict& dict = box_.dict();
  std::string room(1 << 17, '\0');
  holdfast_value keys{};
  keys.data = room.data();
  keys.capacity = room.size();
  std::uint32_t count = 0;
  call("keys", [&] { return holdfast_keys(dict.handle, 0, &keys, &count); });
  for (const std::string_view prefix : {"", "text", "zz"}) {
    std::uint64_t cursor = 0;
    for (int steps = 0; steps < 1000; ++steps) {
      const int code = call("scan", [&] {
        return holdfast_scan(dict.handle, &cursor, 100, prefix.data(), prefix.size(), &keys, &count);
      });
      if (code != HOLDFAST_OK || cursor == 0) break;
    }
  }
  std::uint64_t cursor = 0;
  for (int steps = 0; steps < 1000; ++steps) {
    const int code =
        call("scan_locks", [&] { return holdfast_scan_locks(dict.handle, &cursor, 100, "", 0, &keys, &count); });
    if (code != HOLDFAST_OK || cursor == 0) break;
  }
  call("list", [&] { return holdfast_list(&keys, &count); });
  call("processes", [&] { return holdfast_processes(nullptr, sizeof(holdfast_process), 0, &count); });
  holdfast_health health{};
  limit_("check", [&] { return holdfast_check(dict.handle, &health, sizeof health); });
  limit_("stats", [&] { return dict.stats(); });
  holdfast_histogram histogram{};
  histogram.struct_size = sizeof histogram;
  for (const int time : {HOLDFAST_TIME_WAITED, HOLDFAST_TIME_HELD})
    call("dict_histogram", [&] { return holdfast_dict_histogram(dict.handle, HOLDFAST_HELD_LOCK, time, &histogram); });
  limit_("quantile", [&] { return holdfast_quantile(&histogram, 0.9); });
  std::array<holdfast_contended, 8> keys_of_waits;
  call("dict_contention",
       [&] { return holdfast_dict_contention(dict.handle, keys_of_waits.data(), sizeof keys_of_waits[0], 8, &count); });
  limit_("free_space", [&] { return dict.free_space(); });
}

// --- changes ---

void Battery::change() {
  std::uint32_t count = 0;
  call("flush_expired", [&] { return holdfast_flush_expired(box_.dict().handle, 0, &count); });
  for (const Item& item : box_.items()) {
    if (!problem_.empty()) return;
    const auto is = [&](std::initializer_list<Kind> kinds) {
      return std::find(kinds.begin(), kinds.end(), item.kind) != kinds.end();
    };
    if (is({Kind::text, Kind::number, Kind::expired})) change_value(item);
    if (is({Kind::list})) change_list(item);
    if (is({Kind::mine, Kind::theirs, Kind::dead, Kind::quiet})) change_lock(item);
    if (is({Kind::rwlock, Kind::permits})) change_permits(item);
  }
}

void Battery::change_value(const Item& item) {
  test::Dict& dict = box_.dict();
  double sum = 0;
  if (item.kind == Kind::number) call("incr", [&] { return dict.incr_from(item.key, 1, 0, 0, &sum); });
  call("expire", [&] { return dict.expire(item.key, 1000); });
  call("add", [&] { return dict.add(item.key, "added"); });
  call("set", [&] { return dict.set(item.key, "another value"); });
  const test::Got old = test::text("another value");
  const test::Got then = test::text("a third");
  call("cas", [&] { return dict.cas(item.key, &old, &then); });
  call("replace", [&] { return dict.replace(item.key, std::string(60, 'r')); });
  if (item.key.back() % 2 == 0) call("delete", [&] { return dict.remove(item.key); });
}

void Battery::change_list(const Item& item) {
  test::Dict& dict = box_.dict();
  for (const int end : {HOLDFAST_LEFT, HOLDFAST_RIGHT, HOLDFAST_RIGHT})
    call("push", [&] { return std::max(-dict.push(item.key, end, "an element"), 0); });
  for (int i = 0; i < 4; ++i) call("pop", [&] { return dict.pop(item.key, i % 2).code; });
}

void Battery::change_lock(const Item& item) {
  test::Dict& dict = box_.dict();
  holdfast_lease lease = box_.lease();
  holdfast_holder holder{};
  call("lock_holder", [&] { return dict.holder(item.key, &holder); });
  if (item.kind == Kind::mine) {
    call("lock_explain", [&] { return dict.explain(item.key, lease, "why"); });
    call("lock_renew", [&] { return dict.renew(item.key, lease, kShort); });
    call("lock_adopt", [&] { return dict.adopt(item.key, lease, 1 << 20 | 5); });
    call("unlock", [&] { return dict.unlock(item.key, &lease); });
  }
  const int code = call("lock_try", [&] { return dict.try_lock(item.key, kShort, &lease); });
  if (code == HOLDFAST_OK && item.kind == Kind::theirs) ownership_violated_ = true;
  if (code == HOLDFAST_OK && lease.sequence <= box_.last_sequence())
    fail("the fencing token " + std::to_string(lease.sequence) + " was granted twice");
  if (code == HOLDFAST_OK && lease.sequence >= kSequenceMax)
    fail("the fencing token " + std::to_string(lease.sequence) + " does not fit into a double");
  wait_for(item);
  if (code == HOLDFAST_OK) call("unlock", [&] { return dict.unlock(item.key, &lease); });
}

void Battery::wait_for(const Item& item) {
  test::Dict& dict = box_.dict();
  holdfast_lease lease{};
  holdfast_wait wait{};
  wait.parker = parker_;
  wait.waiter = waiter_;
  wait.task = 1 << 20 | 5;
  wait.holds = 1;
  const int code = call("lock_wait", [&] {
    return holdfast_lock_wait(dict.handle, item.key.data(), item.key.size(), kShort, &wait, &lease);
  });
  std::uint32_t woken = 0;
  limit_("parker_sleep", [&] { return holdfast_parker_sleep(parker_, 0, &woken, 1); });
  if (code == HOLDFAST_OK)
    call("unlock", [&] { return dict.unlock(item.key, &lease); });
  else
    call("lock_leave", [&] { return dict.leave(item.key, parker_, waiter_); });
  for (const int held : {HOLDFAST_HELD_LOCK, HOLDFAST_HELD_RWLOCK}) {
    // The wait is too short for a sleep.
    const holdfast_request request = HOLDFAST_REQUEST(.kind = held, .timeout = 1e-9, .exptime = kShort,
                                                      .want = held == HOLDFAST_HELD_LOCK ? 0U : 1U, .why = "why");
    const int got = call(
        "acquire", [&] { return holdfast_acquire(dict.handle, item.key.data(), item.key.size(), &request, &lease); });
    if (got == HOLDFAST_OK) call("unlock", [&] { return dict.unlock(item.key, &lease); });
  }
  const int locked =
      call("lock", [&] { return holdfast_lock(dict.handle, item.key.data(), item.key.size(), 1e-9, kShort, &lease); });
  if (locked == HOLDFAST_OK) call("unlock", [&] { return dict.unlock(item.key, &lease); });
  std::uint64_t grant = 0;
  call("lock_watch", [&] { return holdfast_lock_watch(dict.handle, item.key.data(), item.key.size(), &wait, &grant); });
  call("lock_leave", [&] { return dict.leave(item.key, parker_, waiter_); });
  std::array<holdfast_holder, 3> holders{};
  std::uint32_t count = 0;
  std::uint32_t waiters = 0;
  call("holders", [&] {
    return holdfast_holders(dict.handle, item.key.data(), item.key.size(), holders.data(), 3, &count, &waiters);
  });
}

void Battery::change_permits(const Item& item) {
  test::Dict& dict = box_.dict();
  const int kind = item.kind == Kind::rwlock ? HOLDFAST_RWLOCK : HOLDFAST_SEMAPHORE;
  std::array<holdfast_lease, 3> leases{};
  call("permits_count", [&] { return std::max(-dict.used(item.key), 0); });
  for (holdfast_lease& lease : leases)
    call("permits_try", [&] { return dict.try_permits(item.key, kind, 1, 10, kShort, &lease); });
  holdfast_wait wait{};
  wait.parker = parker_;
  wait.waiter = waiter_;
  holdfast_lease all{};
  call("permits_wait", [&] {
    return dict.wait_permits(item.key, kind, kind == 0 ? HOLDFAST_ALL_PERMITS : 10, 10, kShort, &wait, &all);
  });
  call("lock_leave", [&] { return dict.leave(item.key, parker_, waiter_); });
  holdfast_holder holder{};
  call("lock_holder", [&] { return dict.holder(item.key, &holder); });
  for (holdfast_lease& lease : leases) {
    call("lock_explain", [&] { return dict.explain(item.key, lease, "why"); });
    // This returns INVALID, because the lease has permits of a semaphore.
    call("permits_upgrade", [&] {
      const int code = dict.upgrade(item.key, lease, &wait);
      return code == HOLDFAST_INVALID && kind == HOLDFAST_SEMAPHORE ? HOLDFAST_OK : code;
    });
    call("lock_leave", [&] { return dict.leave(item.key, parker_, waiter_); });
    call("permits_keep", [&] { return dict.keep(item.key, lease, 1); });
    call("lock_renew", [&] { return dict.renew(item.key, lease, kShort); });
    call("lock_adopt", [&] { return dict.adopt(item.key, lease, 1 << 20 | 5); });
    call("unlock", [&] { return dict.unlock(item.key, &lease); });
  }
  if (all.owner != 0) call("unlock", [&] { return dict.unlock(item.key, &all); });
}

// Stores more values than fit, so that existing entries are moved and evicted.
void Battery::fill_up() {
  test::Dict& dict = box_.dict();
  const std::size_t size = box_.size() / kFillers;
  for (int i = 0; i < kFillers && problem_.empty(); ++i) {
    const std::string key = "filler " + std::to_string(i);
    const std::string value(size * static_cast<std::size_t>(i % 4 + 1) / 2, 'f');
    call("set", [&] { return dict.set(key, value); });
    call("safe_set", [&] { return dict.store(HOLDFAST_SAFE_SET, key + "s", "safe", 0, 0); });
    if (i % 8 == 0) call("push", [&] { return std::max(-dict.push("list", i / 8 % 2, value), 0); });
  }
}

// --- afterwards ---

void Battery::expect(const char* name, bool good) {
  if (!good && !removed_) fail(std::string(name) + " does not work afterwards: " + holdfast_error());
}

void Battery::finish() {
  test::Dict& dict = box_.dict();
  std::uint32_t count = 0;
  call("flush_all", [&] { return dict.flush_all(); });
  call("flush_expired", [&] { return holdfast_flush_expired(dict.handle, 0, &count); });
  // Once a call has reported the removal, nothing is left to check.
  const bool was_named = named_;
  use_as_new();
  use_locks_as_new();
  named_ = was_named;
  if (!problem_.empty() || removed_) return;
  if (box_.dict().stats().repairs != repairs_) named_ = true;
  Segment* const segment = dict.dictionary().segment(EpochGuard());
  if (segment == nullptr) return fail("the dictionary is gone");
  const std::string wrong = test::check_segment(*segment);
  if (!wrong.empty()) fail("left damaged: " + wrong);
}

void Battery::use_as_new() {
  test::Dict& dict = box_.dict();
  double sum = 0;
  for (int i = 0; i < 8 && problem_.empty(); ++i) {
    const std::string key = "text " + std::to_string(i);
    const std::string value(static_cast<std::size_t>(i * 9), 'n');
    expect("set", call("set", [&] { return dict.set(key, value); }) == HOLDFAST_OK);
    test::Got got;
    call("get", [&] { return (got = dict.get(key)).code; });
    expect("get", got == test::text(value));
    expect("delete", call("delete", [&] { return dict.remove(key); }) == HOLDFAST_OK);
    expect("get", call("get", [&] { return dict.get(key).code; }) == HOLDFAST_NOT_FOUND);
  }
  expect("incr", call("incr", [&] { return dict.incr_from("sum", 2, 1, 0, &sum); }) == HOLDFAST_OK && sum == 3);
  expect("push", limit_("push", [&] { return dict.push("fresh list", HOLDFAST_LEFT, "e"); }) == 1);
  test::Got got;
  call("pop", [&] { return (got = dict.pop("fresh list", HOLDFAST_RIGHT)).code; });
  expect("pop", got == test::text("e"));
}

void Battery::use_locks_as_new() {
  test::Dict& dict = box_.dict();
  holdfast_lease lease{};
  holdfast_lease other{};
  for (const char* key : {"mine", "theirs", "a new lock"}) {
    expect("lock_try", call("lock_try", [&] { return dict.try_lock(key, kShort, &lease); }) == HOLDFAST_OK);
    expect("lock_try", call("lock_try", [&] { return dict.try_lock(key, kShort, &other); }) == HOLDFAST_LOCKED ||
                           !problem_.empty());
    expect("unlock", call("unlock", [&] { return dict.unlock(key, &lease); }) == HOLDFAST_OK);
  }
  expect("permits_try", call("permits_try", [&] {
                          return dict.try_permits("rwlock", HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, kShort, &lease);
                        }) == HOLDFAST_OK);
  expect("unlock", call("unlock", [&] { return dict.unlock("rwlock", &lease); }) == HOLDFAST_OK);
}

}  // namespace holdfast::damage
