// What `holdfast cluster status` shows.
#pragma once

#include <string>

namespace holdfast::cli {

/// Shows the dictionary, or all of the world that belong to clusters if the name is empty, each cluster's agent once.
/// The exit status: 0 if locks of all of them can be had.
int show_cluster_status(const std::string& dictionary, bool as_json);

}  // namespace holdfast::cli
