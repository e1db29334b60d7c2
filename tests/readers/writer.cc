#include <random>

#include "readers/ledger.h"
#include "world/world.h"

namespace holdfast::readers {

namespace {

class Writer {
 public:
  explicit Writer(const Work& work) : work_(work), dict_(work.dict), ledger_(work.ledger), random_(work.seed) {
    for (const KeyInfo& key : work.keys)
      if (key.writer == work.self) own_.push_back(&key);
    leases_.resize(work.keys.size());
    lengths_.resize(work.keys.size());
    count_ = ledger_.versions[work.self].load();
  }

  /// Stores the permanent keys, which must exist before the first read.
  void begin() {
    const auto world = World::current();
    ledger_.tokens[work_.self].store((*world)->token());
    for (const KeyInfo* key : own_) {
      // A killed writer may have left a list.
      if (key->kind == Kind::list_length) find_length(*key);
      change(*key);
    }
    for (std::uint32_t i = 0; i < work_.shape.filler; ++i) fill();
  }

  void step() {
    if (count_ == kVersionsMax - 1) return;
    change(*own_[random_() % own_.size()]);
    if (work_.shape.filler != 0 && random_() % 4 == 0) fill();
    ledger_.writes[work_.self].fetch_add(1, std::memory_order_relaxed);
  }

 private:
  void expect(const char* what, const KeyInfo& key, int code, std::initializer_list<int> expected) {
    for (const int one : expected)
      if (code == one) return;
    ledger_.violations.add("%s of %s returns %s (%s)", what, key.name.c_str(), holdfast_code_text(code),
                           holdfast_error());
  }

  void change(const KeyInfo& key) {
    switch (key.kind) {
      case Kind::list_length:
        return change_list(key);
      case Kind::held_lock:
        return renew(key);
      case Kind::passing_lock:
        return take_and_give_back(key);
      case Kind::coming_string:
        return come_and_go(key);
      default:
        store(key, 0);
    }
  }

  void store(const KeyInfo& key, double exptime) {
    const std::uint32_t version = ++count_;
    ledger_.versions[work_.self].store(version, std::memory_order_relaxed);
    double number = 0;
    std::uint32_t flags = version;
    int type = HOLDFAST_NUMBER;
    bytes_.clear();
    switch (key.kind) {
      case Kind::number:
        number = number_of(key.number, version);
        flags = key.number;
        break;
      case Kind::number_with_flags:
        number = number_of(key.number, version);
        break;
      case Kind::boolean:
        type = HOLDFAST_BOOLEAN;
        number = static_cast<double>(mix(key.number, version) & 1);
        flags = boolean_flags(key.number, version);
        break;
      default:
        type = key.kind == Kind::table ? HOLDFAST_TABLE : HOLDFAST_STRING;
        make_bytes(key.number, version, bytes_);
    }
    if (version < kNotes) ledger_.notes[work_.self][version] = static_cast<std::uint32_t>(mix(key.number, version));
    // If no key may disappear, the writer stores with safe_set, which never evicts.
    const int op = work_.shape.safe ? HOLDFAST_SAFE_SET : HOLDFAST_SET;
    const int code = holdfast_store(dict_.handle, op, key.name.data(), key.name.size(), type, bytes_.data(),
                                    bytes_.size(), number, exptime, flags, nullptr);
    expect("store", key, code, {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code != HOLDFAST_OK) return;
    // From now on, no reader may see an earlier version.
    if (key.always_there) ledger_.written[key.number].version.store(version, std::memory_order_release);
  }

  void come_and_go(const KeyInfo& key) {
    switch (random_() % 4) {
      case 0:
        return expect("delete", key, dict_.remove(key.name), {HOLDFAST_OK, HOLDFAST_TIMEOUT});
      case 1:
        return store(key, 0.002);
      default:
        return store(key, 0);
    }
  }

  void find_length(const KeyInfo& key) {
    const int code = holdfast_llen(dict_.handle, key.name.data(), key.name.size(), &lengths_[key.number]);
    expect("llen", key, code, {HOLDFAST_OK});
  }

  void change_list(const KeyInfo& key) {
    std::uint32_t& length = lengths_[key.number];
    const std::uint32_t least = list_base(key.number);
    const int end = random_() % 2 == 0 ? HOLDFAST_LEFT : HOLDFAST_RIGHT;
    if (length < least || (length < least + kListSpan && random_() % 2 == 0)) {
      make_bytes(key.number, static_cast<std::uint32_t>(random_() % 1000), bytes_);
      bytes_.resize(std::min<std::size_t>(bytes_.size(), 100));
      std::uint32_t now = 0;
      const int code = holdfast_push(dict_.handle, key.name.data(), key.name.size(), end, HOLDFAST_STRING,
                                     bytes_.data(), bytes_.size(), 0, &now);
      expect("push", key, code, {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
      if (code != HOLDFAST_OK) return;
      if (now != length + 1 && work_.shape.safe)
        ledger_.violations.add("push changes a list's length from %u to %u", length, now);
      length = now;
      if (length >= least) ledger_.written[key.number].version.store(1, std::memory_order_release);
    } else if (length > least) {
      holdfast_value value{};
      value.data = popped_;
      value.capacity = sizeof popped_;
      const int code = holdfast_pop(dict_.handle, key.name.data(), key.name.size(), end, &value);
      expect("pop", key, code,
             work_.shape.safe ? std::initializer_list<int>{HOLDFAST_OK, HOLDFAST_TIMEOUT}
                              : std::initializer_list<int>{HOLDFAST_OK, HOLDFAST_NOT_FOUND, HOLDFAST_TIMEOUT});
      if (code == HOLDFAST_OK) --length;
      if (code == HOLDFAST_NOT_FOUND) length = 0;
    }
  }

  void renew(const KeyInfo& key) {
    holdfast_lease& lease = leases_[key.number];
    if (lease.owner == 0) {
      expect("lock", key, dict_.try_lock(key.name, seconds_of_term(work_.self, 0), &lease),
             {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
      if (lease.owner == 0) return;
      ledger_.leases[key.number].store(lease.sequence);
      ledger_.written[key.number].version.store(1, std::memory_order_release);
      return;
    }
    const auto term = static_cast<std::uint32_t>(random_() % kTerms);
    expect("renew", key, dict_.renew(key.name, lease, seconds_of_term(work_.self, term)),
           {HOLDFAST_OK, HOLDFAST_TIMEOUT});
  }

  void take_and_give_back(const KeyInfo& key) {
    if (work_.shape.tight()) return;  // a released lock may be evicted, and creating it again would also evict
    const auto term = static_cast<std::uint32_t>(random_() % kTerms);
    holdfast_lease lease{};
    const int code = dict_.try_lock(key.name, seconds_of_term(work_.self, term), &lease);
    expect("lock", key, code, {HOLDFAST_OK, HOLDFAST_NO_MEMORY, HOLDFAST_TIMEOUT});
    if (code != HOLDFAST_OK) return;
    if (lease.sequence < kGrants)
      ledger_.grants[lease.sequence].store(static_cast<std::uint8_t>(work_.self * kTerms + term + 1));
    int released = HOLDFAST_TIMEOUT;
    for (int i = 0; i < 100 && released == HOLDFAST_TIMEOUT; ++i) released = dict_.unlock(key.name, &lease);
    expect("unlock", key, released, {HOLDFAST_OK});
  }

  /// Keeps the dictionary full: stores entries of various sizes, and deletes an entry when there is no room.
  void fill() {
    const std::string name = "filler-" + std::to_string(work_.self) + "-" + std::to_string(random_() % 4096);
    const std::string bytes(random_() % (random_() % 16 == 0 ? 3000 : 200), 'f');
    const int op = work_.shape.safe ? HOLDFAST_SAFE_SET : HOLDFAST_SET;
    if (dict_.store(op, name, bytes, 0, 0) == HOLDFAST_NO_MEMORY)
      for (int i = 0; i < 64; ++i)
        dict_.remove("filler-" + std::to_string(work_.self) + "-" + std::to_string(random_() % 4096));
  }

  const Work& work_;
  test::Dict& dict_;
  Ledger& ledger_;
  std::mt19937_64 random_;
  std::vector<const KeyInfo*> own_;
  std::vector<holdfast_lease> leases_;
  std::vector<std::uint32_t> lengths_;
  std::uint32_t count_ = 0;
  std::string bytes_;
  char popped_[kLongest] = {};
};

}  // namespace

std::vector<KeyInfo> make_keys(std::uint32_t writers, Kinds kinds) {
  constexpr const char* kNames[kKinds] = {"number", "number-anew", "boolean", "string", "table",
                                          "list",   "held",        "passing", "coming"};
  std::vector<KeyInfo> keys;
  for (std::uint32_t writer = 0; writer < writers; ++writer) {
    for (int i = 0; i < kKinds; ++i) {
      const Kind kind = static_cast<Kind>(i);
      const bool is_lock = kind == Kind::passing_lock || kind == Kind::held_lock;
      if (kinds == Kinds::passing_locks ? kind != Kind::passing_lock : kinds == Kinds::no_locks && is_lock) continue;
      for (std::uint32_t j = 0; j < keys_of_kind(kind); ++j) {
        std::string name = std::string(kNames[i]) + "-" + std::to_string(writer) + "-" + std::to_string(j);
        name.append(j * 7 % 40, 'k');
        const auto number = static_cast<std::uint32_t>(keys.size());
        keys.push_back(
            {number, writer, kind, std::move(name), kind != Kind::passing_lock && kind != Kind::coming_string});
      }
    }
  }
  return keys;
}

void write(const Work& work, std::uint32_t writers) {
  Writer writer(work);
  writer.begin();
  work.ledger.ready.fetch_add(1);
  while (work.ledger.ready.load() < writers && !work.ledger.writers_stop.load()) {
  }
  while (!work.ledger.writers_stop.load(std::memory_order_relaxed)) writer.step();
}

}  // namespace holdfast::readers
