#include <map>
#include <random>

#include "readers/ledger.h"

namespace holdfast::readers {

namespace {

constexpr const char* kCounter = "mixed-counter";
constexpr const char* kSwapped = "mixed-swapped";
constexpr const char* kLock = "mixed-lock";

class Mixer {
 public:
  explicit Mixer(const Work& work)
      : work_(work),
        dict_(work.dict),
        ledger_(work.ledger),
        random_(work.seed),
        parker_(holdfast_parker_new()),
        waiter_(holdfast_waiter_open(parker_)),
        side_(dict_.dictionary().name() + "-side", {.size = 32768}) {}
  ~Mixer() { holdfast_parker_free(parker_); }
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  void step() {
    static constexpr std::array kSteps{&Mixer::count_up,      &Mixer::swap,     &Mixer::enter,
                                       &Mixer::look_at_whole, &Mixer::use_side, &Mixer::push_and_pop};
    const std::size_t step = random_() % 12;
    if (step < kSteps.size()) return (this->*kSteps[step])();
    if (step < kSteps.size() + 2 && random_() % 8 == 0) return see_all(step == kSteps.size() ? scan() : keys());
    change_something();
  }

 private:
  void expect(const char* what, int code, std::initializer_list<int> expected) {
    for (const int one : expected)
      if (code == one) return;
    ledger_.violations.add("%s returns %s (%s)", what, holdfast_code_text(code), holdfast_error());
  }

  void count_up() {
    double sum = 0;
    const int code = dict_.incr_from(kCounter, 1, 0, 0, &sum);
    expect("incr", code, {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code == HOLDFAST_OK) ledger_.increments[work_.self].fetch_add(1);
  }

  void swap() {
    const test::Got got = dict_.get(kSwapped);
    expect("get", got.code, {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
    holdfast_value before{};
    before.type = got.type;
    before.number = got.number;
    holdfast_value after{};
    after.type = HOLDFAST_NUMBER;
    after.flags =
        work_.shape.tight() ? 0 : random_() % 2;  // new flags need a new entry; with old flags, only a word changes
    after.number = got.code == HOLDFAST_OK ? got.number + 1 : 1;
    const int code = holdfast_cas(dict_.handle, kSwapped, std::strlen(kSwapped), &before, &after, 0, nullptr);
    expect("cas", code,
           {HOLDFAST_OK, HOLDFAST_EXISTS, HOLDFAST_NOT_FOUND, HOLDFAST_DIFFERS, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code == HOLDFAST_OK) ledger_.swaps[work_.self].fetch_add(1);
  }

  void enter() {
    if (work_.shape.tight()) return;  // a free lock is evicted, and creating it again would also evict
    holdfast_lease lease{};
    int code = HOLDFAST_LOCKED;
    for (int i = 0; i < 20 && (code == HOLDFAST_LOCKED || code == HOLDFAST_TIMEOUT); ++i) {
      double sleep = 0;
      code = dict_.wait_lock(kLock, 0, parker_, waiter_, &lease, &sleep);
      expect("wait", code, {HOLDFAST_OK, HOLDFAST_LOCKED, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
      std::uint32_t woken = 0;
      if (code == HOLDFAST_LOCKED) holdfast_parker_sleep(parker_, std::min(sleep, 0.005), &woken, 1);
    }
    if (code != HOLDFAST_OK)
      return expect("leave", dict_.leave(kLock, parker_, waiter_), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
    ++ledger_.guarded;  // deliberately not atomic
    ledger_.sections[work_.self].fetch_add(1);
    expect("unlock", test::unless_held_up([&] { return dict_.unlock(kLock, &lease); }), {HOLDFAST_OK});
  }

  /// Returns the permanent keys that have been stored so far.
  std::map<std::string, int> present() const {
    std::map<std::string, int> names;
    for (const KeyInfo& key : work_.keys)
      if (key.always_there && ledger_.written[key.number].version.load(std::memory_order_acquire) != 0)
        names[key.name] = 0;
    return names;
  }

  /// Returns a buffer that is large enough for the keys of any dictionary in this test.
  holdfast_value room() {
    holdfast_value value{};
    value.data = buffer_.data();
    value.capacity = buffer_.size();
    return value;
  }

  static void unpack(const char* packed, std::size_t bytes, std::map<std::string, int>& names) {
    for (std::size_t at = 0; at < bytes;) {
      std::uint32_t length = 0;
      std::memcpy(&length, packed + at, sizeof length);
      const auto found = names.find(std::string(packed + at + sizeof length, length));
      if (found != names.end()) ++found->second;
      at += sizeof length + length;
    }
  }

  std::map<std::string, int> scan() {
    std::map<std::string, int> names = present();
    std::uint64_t cursor = 0;
    do {
      std::uint32_t found = 0;
      holdfast_value packed = room();
      const int code =
          holdfast_scan(dict_.handle, &cursor, 1 + static_cast<std::uint32_t>(random_() % 50), "", 0, &packed, &found);
      expect("scan", code, {HOLDFAST_OK});
      if (code != HOLDFAST_OK) return {};
      unpack(packed.data, packed.size, names);
    } while (cursor != 0);
    return names;
  }

  std::map<std::string, int> keys() {
    std::map<std::string, int> names = present();
    std::uint32_t count = 0;
    holdfast_value packed = room();
    const int code = holdfast_keys(dict_.handle, 0, &packed, &count);
    expect("keys", code, {HOLDFAST_OK});
    if (code != HOLDFAST_OK) return {};
    unpack(packed.data, packed.size, names);
    return names;
  }

  void see_all(const std::map<std::string, int>& names) {
    for (const auto& [name, times] : names)
      if (times > 1 || (times == 0 && work_.shape.safe))
        ledger_.violations.add("%s is returned %d times in a walk over all keys", name.c_str(), times);
  }

  void look_at_whole() {
    holdfast_stats stats{};
    expect("stats", holdfast_dict_stats(dict_.handle, &stats), {HOLDFAST_OK});
    if (stats.entries > work_.shape.size || stats.bytes_used + stats.bytes_free > 2 * work_.shape.size)
      ledger_.violations.add("stats: %llu entries", static_cast<unsigned long long>(stats.entries));
    std::uint32_t count = 0;
    expect("flush_expired", holdfast_flush_expired(dict_.handle, 3, &count), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
    if (count > 3) ledger_.violations.add("flush_expired(3) removed %u", count);
    const std::string& name = dict_.dictionary().name();
    holdfast_dict* same = nullptr;
    expect("attach", holdfast_attach(name.data(), name.size(), &same), {HOLDFAST_OK});
    if (same != dict_.handle) ledger_.violations.add("attach returns a different handle");
  }

  void use_side() {
    const std::string name = "side-" + std::to_string(random_() % 20);
    expect("set", side_.set(name, std::string(random_() % 300, 's')),
           {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    expect("get", side_.get(name).code, {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
    if (random_() % 20 == 0) expect("flush_all", side_.flush_all(), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
  }

  /// Uses both ends of a list that all mixers use.
  void push_and_pop() {
    std::uint32_t length = 0;
    const std::string bytes(random_() % 100, 'l');
    const int end = random_() % 2 == 0 ? HOLDFAST_LEFT : HOLDFAST_RIGHT;
    expect("push", holdfast_push(side_.handle, "list", 4, end, HOLDFAST_STRING, bytes.data(), bytes.size(), 0, &length),
           {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    char buffer[128];
    holdfast_value value{};
    value.data = buffer;
    value.capacity = sizeof buffer;
    expect("pop", holdfast_pop(side_.handle, "list", 4, end, &value),
           {HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_TIMEOUT});
  }

  void change_something() {
    const std::string name = "mixed-" + std::to_string(random_() % 60);
    const int op = work_.shape.tight() || random_() % 2 == 0 ? HOLDFAST_SAFE_ADD : HOLDFAST_REPLACE;
    switch (random_() % 5) {
      case 0:
        return expect("delete", dict_.remove(name), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
      case 1:
        return expect("expire", dict_.expire(name, random_() % 2 == 0 ? 0.002 : 10),
                      {HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_TIMEOUT});
      case 2:
        (void)dict_.ttl(name);
        return;
      default:
        return expect("add", dict_.store(op, name, std::string(random_() % 500, 'm'), 0, 0),
                      {HOLDFAST_OK, HOLDFAST_EXISTS, HOLDFAST_NOT_FOUND, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    }
  }

  const Work& work_;
  test::Dict& dict_;
  Ledger& ledger_;
  std::mt19937_64 random_;
  std::string buffer_ = std::string(std::size_t{1} << 20, '\0');
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  test::Dict side_;
};

template <class Counts>
std::uint64_t sum_of(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const auto& count : counts) sum += count.load();
  return sum;
}

}  // namespace

void mix_in(const Work& work) {
  Mixer mixer(work);
  while (!work.ledger.mixers_stop.load(std::memory_order_relaxed)) {
    mixer.step();
    work.ledger.mixed[work.self].fetch_add(1, std::memory_order_relaxed);
  }
}

void prepare_mixed(test::Dict& dict) {
  dict.set_number(kCounter, 0);
  dict.set_number(kSwapped, 0);
}

void check_mixed(test::Dict& dict, Ledger& ledger) {
  const auto counted = static_cast<std::uint64_t>(dict.get(kCounter).number);
  if (counted != sum_of(ledger.increments))
    ledger.violations.add("incr: %llu of %llu were counted", static_cast<unsigned long long>(counted),
                          static_cast<unsigned long long>(sum_of(ledger.increments)));
  const auto swapped = static_cast<std::uint64_t>(dict.get(kSwapped).number);
  if (swapped != sum_of(ledger.swaps))
    ledger.violations.add("cas: %llu of %llu were counted", static_cast<unsigned long long>(swapped),
                          static_cast<unsigned long long>(sum_of(ledger.swaps)));
  if (ledger.guarded != sum_of(ledger.sections))
    ledger.violations.add("lock: %llu of %llu were counted", static_cast<unsigned long long>(ledger.guarded),
                          static_cast<unsigned long long>(sum_of(ledger.sections)));
}

}  // namespace holdfast::readers
