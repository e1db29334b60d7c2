// The gate of a dictionary: whether this machine may grant a lock that other machines want as well.
//
// A plain dictionary has no gate, and pays nothing for it. The only gate there is belongs to cluster/, and the library
// may be built without it: a dictionary that has a gate cannot be opened then.
//
// The gate keeps what it knows in GateHeader, which is in the header page, and in GateFields, which stand behind the
// fields of each lock. The library reads nothing of these but the name. A lock with a gate is never granted or released
// without the shard's mutex: its word stays MUTEX_OWNED (dict/lock_word.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/atomic.h"
#include "base/gate_name.h"
#include "base/status.h"

namespace holdfast {

class Dictionary;
class Segment;

/// At the end of a dictionary's header page. All zero in a plain dictionary.
struct alignas(64) GateHeader {
  std::array<char, kClusterNameMax + 1> name;  // ended by zeros, constant; empty: the dictionary is plain
  std::uint64_t name_seal;                     // its hash, complemented, constant; 0 if it is empty
  std::array<Word64, 23> own;
};
static_assert(sizeof(GateHeader) == 256);

/// Behind the fields of a lock in a dictionary with a gate.
struct GateFields {
  std::array<Word64, 4> own;
};
static_assert(sizeof(GateFields) == 32);

struct Gate {
  /// Whether the lock may be granted now. Without the shard's mutex, a hint.
  bool (*may_grant)(const Segment& segment, const GateFields& fields) noexcept;
  /// For how many seconds the present grant counts; 0: it does not. Without the shard's mutex, a hint.
  double (*seconds_left)(const Segment& segment, const GateFields& fields) noexcept;
  /// The fencing number of the next grant. REQUIRES: the shard's mutex.
  std::uint64_t (*next_number)(GateFields& fields) noexcept;
  /// Why a wait that began at `arrival_ns` ends without the lock; ok: it goes on. unsupported is for all waiters, any
  /// other code for those that only try. REQUIRES: the shard's mutex.
  Code (*refusal)(const GateFields& fields, std::uint64_t arrival_ns) noexcept;
  /// Tells the gate that the key with that hash is wanted.
  void (*want)(const Segment& segment, std::uint64_t hash) noexcept;
  /// Ok, or unavailable: no lock of the dictionary can be granted. `seconds`: how long the present grants count. The
  /// message is for a caller whose wait was without success, also where the code is ok. Also: removed.
  Status (*state)(Dictionary& dictionary, double& seconds);
  /// Whether the present grant counts, for an observer: writes nothing. `revision`: what its number begins with.
  bool (*is_seen_to_count)(const Segment& segment, const GateFields& fields, std::uint64_t& revision) noexcept;
  /// Forgets everything that was granted: the dictionary comes from another world.
  void (*forget)(const Segment& segment) noexcept;
};

/// The gate of cluster/; null: the library was built without it.
const Gate* cluster_gate() noexcept;

/// The gate with that name; null for the empty name. unsupported: the library was built without it.
Expected<const Gate*> find_gate(const std::string& dictionary, const std::string& name);

/// Writes the name, and its seal. REQUIRES: it is empty, or check_cluster_name() accepts it.
void name_gate(GateHeader& header, std::string_view name) noexcept;
/// Whether the name is as it was written.
bool is_gate_name_sound(const GateHeader& header) noexcept;
/// Empty: the dictionary is plain.
std::string_view gate_name(const GateHeader& header) noexcept;

/// Whether a dictionary with the gate `found` suits somebody who has `declared` it in HOLDFAST_CLUSTER, where an empty
/// name is no gate. mismatch, or ok.
// What is declared to belong to a cluster is never used as a local dictionary, nor as one of another cluster.
Status check_gate(const std::string& dictionary, const std::string& found, const std::string& declared);
/// The gate for somebody who asks for `asked`, which may be empty, and has declared another: mismatch.
Status choose_gate(const std::string& dictionary, std::string& asked, const std::string& declared);
/// " in the cluster "main"" for a sentence; empty for none.
std::string describe_gate(const std::string& name);

}  // namespace holdfast
