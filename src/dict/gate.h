// The gate of a dictionary: whether this machine may grant a lock that other machines also use.
//
// A plain dictionary has no gate, and pays nothing for it. The only gate belongs to cluster/, and the library may be
// built without it; then a dictionary that has a gate cannot be opened.
//
// The gate keeps its data in GateHeader, in the header page, and in GateFields, which follow the fields of each lock.
// The library reads only the name. A lock with a gate is never granted or released without the shard's mutex: its word
// stays MUTEX_OWNED (dict/lock_word.h).
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
  std::array<char, kClusterNameMax + 1> name;  // ended by zeros, constant; empty: a plain dictionary
  std::uint64_t name_seal;                     // its hash, complemented, constant; 0 if it is empty
  std::array<Word64, 23> own;
};
static_assert(sizeof(GateHeader) == 256);

/// Follows the fields of a lock in a dictionary with a gate.
struct GateFields {
  std::array<Word64, 4> own;
};
static_assert(sizeof(GateFields) == 32);

struct Gate {
  /// Whether the lock may be granted now. Without the shard's mutex it is a hint.
  bool (*may_grant)(const Segment& segment, const GateFields& fields) noexcept;
  /// For how many seconds the present grant counts; 0: it does not. Without the shard's mutex it is a hint.
  double (*seconds_left)(const Segment& segment, const GateFields& fields) noexcept;
  /// The fencing number of the next grant. REQUIRES: the shard's mutex.
  std::uint64_t (*next_number)(GateFields& fields) noexcept;
  /// Why a wait that began at `arrival_ns` ends without the lock; ok: it continues. unsupported is for all waiters, any
  /// other code for those that only try. REQUIRES: the shard's mutex.
  Code (*refusal)(const GateFields& fields, std::uint64_t arrival_ns) noexcept;
  /// Notifies the gate that the key with that hash is wanted.
  void (*want)(const Segment& segment, std::uint64_t hash) noexcept;
  /// Ok, or unavailable: no lock of the dictionary can be granted. `seconds`: how long the present grants count. The
  /// message, which may be set even if the code is ok, is for a caller whose wait failed. Other codes: removed.
  Status (*state)(Dictionary& dictionary, double& seconds);
  /// Whether the present grant counts, for an observer: writes nothing. `revision`: the beginning of its number.
  bool (*is_seen_to_count)(const Segment& segment, const GateFields& fields, std::uint64_t& revision) noexcept;
  /// Forgets everything that was granted: the dictionary comes from another world.
  void (*forget)(const Segment& segment) noexcept;
};

/// Returns the gate of cluster/; null if the library was built without it.
const Gate* cluster_gate() noexcept;

/// Returns the gate with that name; null for the empty name. unsupported: the library was built without it.
Expected<const Gate*> find_gate(const std::string& dictionary, const std::string& name);

/// Writes the name and its seal. REQUIRES: it is empty, or check_cluster_name() accepts it.
void name_gate(GateHeader& header, std::string_view name) noexcept;
/// Returns whether the name is as it was written.
bool is_gate_name_sound(const GateHeader& header) noexcept;
/// Empty: a plain dictionary.
std::string_view gate_name(const GateHeader& header) noexcept;

/// Whether a dictionary with the gate `found` suits a process with `declared` in HOLDFAST_CLUSTER; an empty name means
/// no gate. mismatch, or ok.
// A dictionary that is declared to belong to a cluster is never used as a local one, nor as one of another cluster.
Status check_gate(const std::string& dictionary, const std::string& found, const std::string& declared);
/// Chooses the gate for a caller that asks for `asked`, which may be empty. mismatch: another one is declared.
Status choose_gate(const std::string& dictionary, std::string& asked, const std::string& declared);
/// " in the cluster "main"" for a message; empty for none.
std::string describe_gate(const std::string& name);

}  // namespace holdfast
