// Names of gates (dict/gate.h). Users know them as names of clusters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// Longest name in bytes.
inline constexpr std::size_t kClusterNameMax = 63;

/// Checks a cluster's name: 1 to kClusterNameMax letters, digits, '-', '_' and '.', the first not a '.'. The name is
/// used unchanged as a file name and as a part of a key in the store.
Status check_cluster_name(std::string_view name);

/// Finds the dictionary's cluster in "dictionary=cluster,dictionary=cluster", with names as in parse_declaration().
/// not_found: it has none. invalid: a part of the text is malformed, or names two clusters for one dictionary.
Expected<std::string> find_cluster(std::string_view declarations, std::string_view dictionary);
/// The same in $HOLDFAST_CLUSTER; empty if it has none.
Expected<std::string> declared_cluster(std::string_view dictionary);

}  // namespace holdfast
