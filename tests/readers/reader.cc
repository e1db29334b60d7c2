#include <random>

#include "dict/expiry.h"
#include "readers/ledger.h"

namespace holdfast::readers {

namespace {

class Watcher {
 public:
  explicit Watcher(const Work& work)
      : work_(work),
        dict_(work.dict),
        ledger_(work.ledger),
        random_(work.seed),
        seen_(work.keys.size()),
        sequences_(work.keys.size()) {}

  /// Returns whether there was a value to read.
  bool step() {
    const std::uint64_t random = random_();
    const KeyInfo& key = work_.keys[(random >> 32) * work_.keys.size() >> 32];
    const std::uint32_t least =
        std::max(seen_[key.number], ledger_.written[key.number].version.load(std::memory_order_acquire));
    if (!look_at(key, least, random % 8 == 0)) {
      check_missing(key, least);
      return false;
    }
    auto& count = ledger_.readers[work_.self].reads[static_cast<std::size_t>(key.kind)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  /// Checks a key that was not found. `least` is 0 if the key need not exist yet.
  void check_missing(const KeyInfo& key, std::uint32_t least) {
    auto& count = ledger_.readers[work_.self].missing;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (least != 0 && key.always_there && (work_.shape.safe || key.kind == Kind::held_lock))
      ledger_.violations.add("MISSED: %s, at least version %u", key.name.c_str(), least);
  }

  /// Reads the key and checks its value. Returns false if the key does not exist.
  bool look_at(const KeyInfo& key, std::uint32_t least, bool stale_too) {
    switch (key.kind) {
      case Kind::list_length:
        return look_at_length(key, least);
      case Kind::held_lock:
      case Kind::passing_lock:
        return look_at_lock(key);
      default:
        return look_at_value(key, least, stale_too);
    }
  }

  bool look_at_value(const KeyInfo& key, std::uint32_t least, bool stale_too) {
    holdfast_value value{};
    value.data = buffer_;
    value.capacity = sizeof buffer_;
    int stale = 0;
    const int code = stale_too ? holdfast_get_stale(dict_.handle, key.name.data(), key.name.size(), &value, &stale)
                               : holdfast_get(dict_.handle, key.name.data(), key.name.size(), &value);
    if (code == HOLDFAST_NOT_FOUND) return false;
    if (code == HOLDFAST_OK)
      check_value(key, least, value);
    else
      ledger_.violations.add("get of %s returns %s", key.name.c_str(), holdfast_code_text(code));
    return true;
  }

  void check_value(const KeyInfo& key, std::uint32_t least, const holdfast_value& value) {
    std::uint32_t version = 0;
    if (!proves_itself(key, value, version))
      return ledger_.violations.add("TORN: %s, type %d, flags %u, %zu bytes, number %a", key.name.c_str(), value.type,
                                    value.flags, value.size, value.number);
    if (version < kNotes && ledger_.notes[key.writer][version] != static_cast<std::uint32_t>(mix(key.number, version)))
      ledger_.violations.add("NOT COMPLETE: version %u of %s became visible before earlier writes", version,
                             key.name.c_str());
    // If a key is deleted and stored again, get_stale may return an old version. For other keys, a version must not be
    // older than a version that was seen before.
    if (!key.always_there) return;
    if (version < least)
      ledger_.violations.add("OLD: version %u of %s, expected at least %u", version, key.name.c_str(), least);
    seen_[key.number] = version;
  }

  static bool proves_itself(const KeyInfo& key, const holdfast_value& value, std::uint32_t& version) {
    switch (key.kind) {
      case Kind::number:
      case Kind::number_with_flags:
        version = version_of(value.number);
        return value.type == HOLDFAST_NUMBER && value.flags == (key.kind == Kind::number ? key.number : version) &&
               std::bit_cast<std::uint64_t>(value.number) ==
                   std::bit_cast<std::uint64_t>(number_of(key.number, version));
      case Kind::boolean:
        version = value.flags & (kVersionsMax - 1);
        return value.type == HOLDFAST_BOOLEAN && value.flags == boolean_flags(key.number, version) &&
               value.number == static_cast<double>(mix(key.number, version) & 1);
      default:
        version = value.flags;
        return value.type == (key.kind == Kind::table ? HOLDFAST_TABLE : HOLDFAST_STRING) &&
               are_bytes_of(key.number, version, value.data, value.size);
    }
  }

  bool look_at_length(const KeyInfo& key, std::uint32_t least) {
    std::uint32_t length = 0;
    const int code = holdfast_llen(dict_.handle, key.name.data(), key.name.size(), &length);
    if (code != HOLDFAST_OK)
      ledger_.violations.add("llen of %s returns %s", key.name.c_str(), holdfast_code_text(code));
    if (length == 0) return false;
    const std::uint32_t shortest = list_base(key.number);
    if (length > shortest + kListSpan || (least != 0 && work_.shape.safe && length < shortest))
      ledger_.violations.add("TORN: %s has length %u, not %u to %u", key.name.c_str(), length, shortest,
                             shortest + kListSpan);
    return true;
  }

  bool look_at_lock(const KeyInfo& key) {
    ValueOut out{};
    const Code code = dict_.dictionary().get(key.name, out);
    if (code == Code::not_found) return false;
    // In an incomplete grant, only the owner is known.
    if (code == Code::ok && out.type == EntryType::lock && out.incomplete) return true;
    check_lock(key, code, out);
    return true;
  }

  void check_lock(const KeyInfo& key, Code code, const ValueOut& out) {
    const std::uint64_t end = expiry_ms(out.expiry) - ledger_.begin_ms.load(std::memory_order_relaxed);
    const auto term = static_cast<std::uint64_t>(static_cast<double>(end) / 1e3 / kTermSeconds) - 1;
    if (code != Code::ok || out.type != EntryType::lock || term / kTerms != key.writer ||
        out.bits != ledger_.tokens[key.writer].load(std::memory_order_relaxed))
      return ledger_.violations.add("TORN: %s gives %d, type %d, term %d", key.name.c_str(), static_cast<int>(code),
                                    static_cast<int>(out.type), static_cast<int>(term));
    if (key.kind == Kind::held_lock) {
      const std::uint64_t sequence = ledger_.leases[key.number].load();
      if (sequence != 0 && out.sequence != sequence)
        ledger_.violations.add("TORN: %s has a wrong fencing token", key.name.c_str());
    } else {
      check_grant(key, out.sequence, term);
    }
  }

  /// Checks that the fencing token and the expiry that were read belong to the same grant. The taker records both only
  /// after the grant, so each call checks the previous grant.
  void check_grant(const KeyInfo& key, std::uint64_t sequence, std::uint64_t term) {
    if (last_grant_.sequence < kGrants) {
      const std::uint8_t noted = ledger_.grants[last_grant_.sequence].load(std::memory_order_relaxed);
      if (noted != 0 && noted != last_grant_.term + 1)
        ledger_.violations.add("TORN: grant %llu of a lock was seen with the end of another",
                               static_cast<unsigned long long>(last_grant_.sequence));
    }
    last_grant_ = {sequence, term};
    if (sequence < sequences_[key.number])
      ledger_.violations.add("OLD: the fencing token of %s has decreased", key.name.c_str());
    sequences_[key.number] = sequence;
  }

  struct Grant {
    std::uint64_t sequence = kGrants;
    std::uint64_t term = 0;
  };

  const Work& work_;
  test::Dict& dict_;
  Ledger& ledger_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> seen_;
  std::vector<std::uint64_t> sequences_;
  Grant last_grant_;
  char buffer_[kLongest] = {};
};

}  // namespace

void read(const Work& work, std::uint64_t reads) {
  Watcher reader(work);
  for (std::uint64_t done = 0; done < reads && work.ledger.violations.count.load(std::memory_order_relaxed) == 0;)
    if (reader.step()) ++done;
}

}  // namespace holdfast::readers
