#include <map>
#include <random>
#include <string>

#include "base/hash.h"
#include "crash/storm.h"
#include "crash/storm_pool.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast::crash {

namespace {

constexpr std::size_t kChecksumDigits = 16;

std::string checksum(const std::string& text) {
  char digits[kChecksumDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

class Work {
 public:
  Work(test::Dict& dict, Ledger& ledger, int self, std::uint64_t life, std::uint64_t seed)
      : dict_(dict),
        ledger_(ledger),
        row_(ledger.workers[static_cast<std::size_t>(self)]),
        self_(self),
        life_(life),
        random_(seed),
        parker_(holdfast_parker_new()),
        waiter_(holdfast_waiter_open(parker_)),
        pools_(dict, ledger, self, random_, parker_, waiter_) {}

  void step() {
    // Half of the workers hardly ever enter a critical section, so they are killed inside the dictionary instead.
    const std::size_t kinds = self_ % 2 == 0 || below(50) == 0 ? 18 : 13;
    switch (below(kinds)) {
      case 0:
      case 1:
        change_value(value_key(static_cast<int>(below(kValues))));
        break;
      case 2:
      case 3:
      case 4:
        look_at_value(value_key(static_cast<int>(below(kValues))));
        break;
      case 5:
        expect("delete", dict_.remove(value_key(static_cast<int>(below(kValues)))), {HOLDFAST_OK});
        break;
      case 6:
        expect("expire", dict_.expire(value_key(static_cast<int>(below(kValues))), below(2) == 0 ? 100 : 0.002),
               {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
        break;
      case 7:
      case 8:
        count(below(kCounters));
        break;
      case 9:
        short_lease(lease_key(static_cast<int>(below(2))));
        break;
      case 10:
        count_by_cas(below(kCounters));
        break;
      case 11:
      case 12:
        change_list(below(kLists));
        break;
      case 13:
      case 14:
      case 15:
        pools_.use(below(kPools));
        break;
      default:
        critical_section(below(kLocks));
    }
    row_.calls.fetch_add(1, kRelaxed);
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void expect(const char* what, int code, std::initializer_list<int> expected) {
    for (const int one : expected)
      if (code == one) return;
    ledger_.violations.add("%s returns %s (%s)", what, holdfast_code_text(code), holdfast_error());
  }

  void change_value(const std::string& key) {
    const std::string text = make_value(key, self_, random_(), below(8) == 0 ? below(900) : below(60));
    const double exptime = below(4) == 0 ? 0.003 : 0;
    switch (below(3)) {
      case 0:
        return expect("add", dict_.add(key, text, exptime), {HOLDFAST_OK, HOLDFAST_EXISTS, HOLDFAST_NO_MEMORY});
      case 1:
        return expect("replace", dict_.replace(key, text, exptime),
                      {HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_NO_MEMORY});
      default:
        return expect("set", dict_.set(key, text, exptime), {HOLDFAST_OK, HOLDFAST_NO_MEMORY});
    }
  }

  void look_at_value(const std::string& key) {
    const test::Got got = dict_.get(key);
    expect("get", got.code, {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
    if (got.code == HOLDFAST_OK && (got.type != HOLDFAST_STRING || !is_value_of(key, got.text)))
      ledger_.violations.add("%s has a torn value: type %d \"%s\"", key.c_str(), got.type, got.text.c_str());
  }

  void count(std::size_t counter) {
    double sum = 0;
    row_.in_flight.store(static_cast<std::uint32_t>(counter + 1));
    const int code = dict_.incr(counter_key(static_cast<int>(counter)), 1, &sum);
    if (code == HOLDFAST_OK) row_.acknowledged[counter].fetch_add(1);
    row_.in_flight.store(0);
    if (ledger_.evicts && code == HOLDFAST_NOT_FOUND)
      expect("incr", dict_.incr_from(counter_key(static_cast<int>(counter)), 1, 0, 0, &sum),
             {HOLDFAST_OK, HOLDFAST_NO_MEMORY});
    else
      expect("incr", code, {HOLDFAST_OK});
  }

  /// Increments a counter in two steps, between which other workers may change the counter.
  void count_by_cas(std::size_t counter) {
    const std::string key = counter_key(static_cast<int>(counter));
    const test::Got old = dict_.get(key);
    if (ledger_.evicts && old.code == HOLDFAST_NOT_FOUND) return;
    expect("get", old.code, {HOLDFAST_OK});
    const test::Got sum = test::number(old.number + 1);
    row_.in_flight.store(static_cast<std::uint32_t>(counter + 1));
    const int code = dict_.cas(key, &old, &sum);
    if (code == HOLDFAST_OK) row_.acknowledged[counter].fetch_add(1);
    row_.in_flight.store(0);
    if (!ledger_.evicts || code != HOLDFAST_NOT_FOUND) expect("cas", code, {HOLDFAST_OK, HOLDFAST_DIFFERS});
  }

  void change_list(std::size_t number) {
    if (lengths_[number] < 40 && below(2) == 0)
      push(number);
    else
      pop(number);
  }

  void push(std::size_t number) {
    const std::string key = list_key(static_cast<int>(number));
    const std::uint32_t id = ledger_.next_element.fetch_add(1);
    if (id >= kElements) return ledger_.next_element.store(kElements);
    ledger_.elements[id].store(Element::kBegun);
    const int end = static_cast<int>(below(2));
    const int length =
        below(3) == 0 ? dict_.push_number(key, end, id) : dict_.push(key, end, make_value(key, self_, id, below(60)));
    if (length > 0) {
      ledger_.elements[id].fetch_or(Element::kPushed);
      lengths_[number] = length;
    } else {
      ledger_.elements[id].store(0);
      expect("push", -length, {HOLDFAST_NO_MEMORY});
      pop(number);
    }
  }

  void pop(std::size_t number) {
    const std::string key = list_key(static_cast<int>(number));
    row_.popping.store(1);
    const test::Got got = dict_.pop(key, static_cast<int>(below(2)));
    if (got.code == HOLDFAST_OK) take_element(ledger_, key, got);
    row_.popping.store(0);
    expect("pop", got.code, {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
    lengths_[number] = dict_.llen(key);
    if (lengths_[number] < 0) expect("llen", -lengths_[number], {HOLDFAST_OK});
  }

  /// Takes a lease that may expire before this process releases it. In that case, unlock() returns NOT_OWNER.
  void short_lease(const std::string& key) {
    holdfast_lease lease{};
    const int code = dict_.try_lock(key, 0.001, &lease);
    expect("lock", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code != HOLDFAST_OK) return;
    std::uint64_t& last = last_sequences_[key];
    if (lease.sequence <= last) ledger_.violations.add("the fencing token of %s does not grow", key.c_str());
    last = lease.sequence;
    if (below(2) == 0)
      expect("renew", dict_.renew(key, lease, 0.001), {HOLDFAST_OK, HOLDFAST_NOT_OWNER, HOLDFAST_NOT_FOUND});
    expect("unlock", dict_.unlock(key, &lease), {HOLDFAST_OK, HOLDFAST_NOT_OWNER});
  }

  bool acquire(const std::string& key, holdfast_lease* lease) {
    if (below(3) == 0) {
      const int code = dict_.try_lock(key, 0, lease);
      expect("lock", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
      return code == HOLDFAST_OK;
    }
    const std::uint64_t end = platform::monotonic_ns() + below(20) * kNsPerMs;
    for (;;) {
      double sleep = 0;
      const int code = dict_.wait_lock(key, 0, parker_, waiter_, lease, &sleep);
      expect("wait", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
      if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code == HOLDFAST_OK;
      if (platform::monotonic_ns() >= end) break;
      std::uint32_t woken = 0;
      holdfast_parker_sleep(parker_, std::min(sleep, 0.005), &woken, 1);
    }
    expect("leave", dict_.leave(key, parker_, waiter_), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
    return false;
  }

  void critical_section(std::size_t number) {
    const std::string key = lock_key(static_cast<int>(number));
    holdfast_lease lease{};
    if (!acquire(key, &lease)) return;
    Section& section = ledger_.sections[number];
    // Deliberately uses separate loads and stores, which only the lock makes safe.
    const std::uint64_t before = section.token.load();
    if (before != 0) take_over(key, section, before);
    section.inside.store(static_cast<std::uint64_t>(self_) << 32 | life_);
    section.token.store(lease.owner);
    if (lease.sequence <= section.sequence.load())
      ledger_.violations.add("the fencing token of %s does not grow", key.c_str());
    section.sequence.store(lease.sequence);

    const std::uint64_t seen = section.unguarded.load();
    const std::uint64_t end = platform::monotonic_ns() + below(100'000);
    while (platform::monotonic_ns() < end) platform::cpu_relax();
    if (section.unguarded.load() != seen || section.token.load() != lease.owner)
      ledger_.violations.add("two processes hold %s", key.c_str());
    section.unguarded.store(seen + 1);
    section.entered.fetch_add(1);

    section.token.store(0);
    expect("unlock", dict_.unlock(key, &lease), {HOLDFAST_OK});
  }

  /// Checks that the process that is still recorded as being inside is dead.
  void take_over(const std::string& key, Section& section, std::uint64_t token) {
    ledger_.takeovers.fetch_add(1);
    if ((*World::current())->judge(token) == Liveness::alive)
      ledger_.violations.add("%s was taken from a living process", key.c_str());
    const std::uint64_t inside = section.inside.load();
    const Worker& dead = ledger_.workers[(inside >> 32) % kWorkers];
    const std::uint64_t killed = dead.killed_at_ns[(inside & 0xFFFFFFFF) % kLivesKept].load();
    if (killed != 0) ledger_.takeover_us.add((platform::monotonic_ns() - killed) / 1000);
  }

  test::Dict& dict_;
  Ledger& ledger_;
  Worker& row_;
  int self_;
  std::uint64_t life_;
  std::mt19937_64 random_;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  PoolUser pools_;
  std::map<std::string, std::uint64_t> last_sequences_;  // by key
  int lengths_[kLists] = {};
};

}  // namespace

std::string make_value(const std::string& key, int worker, std::uint64_t number, std::size_t filler) {
  std::string text = key + " by " + std::to_string(worker) + " " + std::to_string(number) + " ";
  text.append(filler, static_cast<char>('a' + number % 26));
  return text + checksum(text);
}

bool is_value_of(const std::string& key, const std::string& text) {
  if (text.size() < key.size() + kChecksumDigits || text.compare(0, key.size() + 4, key + " by ") != 0) return false;
  return checksum(text.substr(0, text.size() - kChecksumDigits)) == text.substr(text.size() - kChecksumDigits);
}

void take_element(Ledger& ledger, const std::string& key, const test::Got& got) {
  std::uint64_t id = kElements;
  if (got.type == HOLDFAST_NUMBER)
    id = static_cast<std::uint64_t>(got.number);
  else if (is_value_of(key, got.text))  // "KEY by WORKER ID ..."
    id = std::strtoull(got.text.c_str() + got.text.find(' ', key.size() + 4), nullptr, 10);
  if (id >= kElements)
    return ledger.violations.add("%s gave an element that nobody pushed: \"%s\"", key.c_str(), got.text.c_str());
  const std::uint8_t before = ledger.elements[id].fetch_or(Element::kTaken);
  if ((before & Element::kBegun) == 0 || (before & Element::kTaken) != 0)
    ledger.violations.add("element %llu of %s was %s", static_cast<unsigned long long>(id), key.c_str(),
                          (before & Element::kTaken) != 0 ? "popped twice" : "popped, but never pushed");
}

void work(test::Dict& dict, Ledger& ledger, int self, std::uint64_t life, std::uint64_t seed) {
  Work one(dict, ledger, self, life, seed);
  for (;;) one.step();
}

}  // namespace holdfast::crash
