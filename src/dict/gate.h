// The gate of a dictionary decides whether this machine may grant a lock that other machines also use.
//
// A plain dictionary does not have a gate, and gates do not make it slower. The only gate is in cluster/. A library
// that was built without cluster/ cannot open a dictionary that has a gate.
//
// The gate keeps its data in GateHeader, in the header page, and in GateFields, after the fields of each lock. The
// library itself reads only the name. A lock with a gate is never granted or released without the shard's mutex: its
// word stays MUTEX_OWNED (dict/lock_word.h).
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

/// The gate's data at the end of a dictionary's header page. All words are zero in a plain dictionary.
struct alignas(64) GateHeader {
  std::array<char, kClusterNameMax + 1> name;  // padded with zeros, constant; empty in a plain dictionary
  std::uint64_t name_seal;                     // the complement of the name's hash, constant; 0 if the name is empty
  std::array<Word64, 23> own;
};
static_assert(sizeof(GateHeader) == 256);

/// The gate's data after the fields of a lock in a dictionary with a gate.
struct GateFields {
  std::array<Word64, 4> own;
};
static_assert(sizeof(GateFields) == 32);

struct Gate {
  /// Returns whether the lock may be granted now. Without the shard's mutex, the result is a hint.
  bool (*may_grant)(const Segment& segment, const GateFields& fields) noexcept;
  /// Returns for how many seconds the current grant is still valid, or 0 if it is not valid. Without the shard's mutex,
  /// the result is a hint.
  double (*seconds_left)(const Segment& segment, const GateFields& fields) noexcept;
  /// Returns the fencing token of the next grant. REQUIRES: the shard's mutex is held.
  std::uint64_t (*next_number)(GateFields& fields) noexcept;
  /// Returns why a wait that began at `arrival_ns` must end without the lock, or ok if it may continue. The code
  /// unsupported ends all waits. Any other code ends only the waits of waiters that only try (Waiter::tries). REQUIRES:
  /// the shard's mutex is held.
  Code (*refusal)(const GateFields& fields, std::uint64_t arrival_ns) noexcept;
  /// Tells the gate that a process wants the key with this hash.
  void (*want)(const Segment& segment, std::uint64_t hash) noexcept;
  /// Returns ok, unavailable (no lock of the dictionary can be granted) or removed. Sets `seconds` to the time for
  /// which the current grants are still valid. The message, which may be set even if the code is ok, is for callers
  /// whose wait has failed.
  Status (*state)(Dictionary& dictionary, double& seconds);
  /// Returns, for an observer, whether the current grant is valid, without writing to shared memory. Sets `revision` to
  /// the upper part of the grant's fencing token.
  bool (*is_seen_to_count)(const Segment& segment, const GateFields& fields, std::uint64_t& revision) noexcept;
  /// Forgets everything that was granted, because the dictionary comes from another world (runtime directory).
  void (*forget)(const Segment& segment) noexcept;
};

/// Returns the gate of cluster/, or null if the library was built without it.
const Gate* cluster_gate() noexcept;

/// Returns the gate with this name, or null for the empty name. Fails with unsupported if the library was built without
/// the gate.
Expected<const Gate*> find_gate(const std::string& dictionary, const std::string& name);

/// Writes the name and its seal. REQUIRES: the name is empty, or check_cluster_name() accepts it.
void name_gate(GateHeader& header, std::string_view name) noexcept;
/// Returns whether the name has not changed since it was written.
bool is_gate_name_sound(const GateHeader& header) noexcept;
/// Returns the name; it is empty in a plain dictionary.
std::string_view gate_name(const GateHeader& header) noexcept;

/// Returns ok if a dictionary with the gate `found` suits a process that has declared the gate `declared` in
/// HOLDFAST_CLUSTER, otherwise mismatch. An empty name means no gate.
// A dictionary that is declared to belong to a cluster must never be used as a local dictionary, or as a dictionary of
// another cluster.
Status check_gate(const std::string& dictionary, const std::string& found, const std::string& declared);
/// Chooses the gate for a caller that asks for `asked`, which may be empty. Fails with mismatch if a different gate is
/// declared.
Status choose_gate(const std::string& dictionary, std::string& asked, const std::string& declared);
/// Returns ` in the cluster "main"` for a message, or an empty text if there is no gate.
std::string describe_gate(const std::string& name);

}  // namespace holdfast
