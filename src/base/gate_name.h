// Names of gates (dict/gate.h), which are names of clusters to those that use them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Bytes of a name.
inline constexpr std::size_t kClusterNameMax = 63;

/// A cluster's name is a file's, and a part of a key at the store, as it stands: 1 to kClusterNameMax letters, digits,
/// '-', '_' and '.', of which the first is no '.'.
Status check_cluster_name(std::string_view name);

/// The cluster of the dictionary in "dictionary=cluster,dictionary=cluster", with names as in parse_declaration().
/// not_found: it has none; invalid: a part of the text is malformed, or names two clusters for one dictionary.
Expected<std::string> find_cluster(std::string_view declarations, std::string_view dictionary);
/// The same in $HOLDFAST_CLUSTER; empty: it has none.
Expected<std::string> declared_cluster(std::string_view dictionary);

}  // namespace holdfast
