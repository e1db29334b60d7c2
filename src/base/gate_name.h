// The names of gates (dict/gate.h). Users know a gate's name as the name of a cluster.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace holdfast {

/// The maximum length of a name, in bytes.
inline constexpr std::size_t kClusterNameMax = 63;

/// Checks a cluster's name: 1 to kClusterNameMax letters, digits, '-', '_' and '.', not starting with '.'. The name is
/// used unchanged as a file name and as part of a key in the store.
Status check_cluster_name(std::string_view name);

/// Finds the dictionary's cluster in a text such as "dictionary=cluster,dictionary=cluster". Dictionary names are
/// written as for parse_declaration(). Returns not_found if the text does not name a cluster for the dictionary, and
/// invalid if a part is malformed or a dictionary has two clusters.
Expected<std::string> find_cluster(std::string_view declarations, std::string_view dictionary);
/// Finds the dictionary's cluster in $HOLDFAST_CLUSTER. Returns an empty string if there is none.
Expected<std::string> declared_cluster(std::string_view dictionary);

}  // namespace holdfast
