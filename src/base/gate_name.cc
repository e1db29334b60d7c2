#include "base/gate_name.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/name.h"
#include "base/parse.h"

namespace holdfast {

namespace {

struct Declared {
  std::string dictionary;
  std::string cluster;
};

Expected<Declared> parse(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Status{Code::invalid, "expected NAME=CLUSTER, as in my_locks=main"};
  auto name = parse_name(text.substr(0, equals));
  if (!name) return name.status();
  Declared declared{std::move(*name), std::string(text.substr(equals + 1))};
  if (Status bad = check_cluster_name(declared.cluster); !bad.ok()) return bad;
  return declared;
}

}  // namespace

Status check_cluster_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (!name.empty() && name.size() <= kClusterNameMax && name[0] != '.' && std::all_of(name.begin(), name.end(), plain))
    return {};
  return {Code::invalid, "bad cluster " + quote(name) + ": expected 1 to " + std::to_string(kClusterNameMax) +
                             " letters, digits, \"-\", \"_\" or \".\", and not \".\" as the first"};
}

Expected<std::string> find_cluster(std::string_view declarations, std::string_view dictionary) {
  Expected<std::string> found = Status{Code::not_found, "no cluster of " + quote_name(dictionary)};
  for (std::string_view item = next_item(declarations); !item.empty(); item = next_item(declarations)) {
    auto declared = parse(item);
    if (!declared)
      return Status{Code::invalid,
                    "bad declaration " + quote(item) + " in HOLDFAST_CLUSTER: " + declared.status().message};
    if (declared->dictionary != dictionary) continue;
    if (found && *found != declared->cluster)
      return Status{Code::invalid, "HOLDFAST_CLUSTER assigns dictionary " + quote_name(dictionary) +
                                       " to two clusters, " + quote(*found) + " and " + quote(declared->cluster) +
                                       "; name only one"};
    found = declared->cluster;
  }
  return found;
}

Expected<std::string> declared_cluster(std::string_view dictionary) {
  const char* const declarations = ::secure_getenv("HOLDFAST_CLUSTER");
  auto declared = find_cluster(declarations != nullptr ? declarations : "", dictionary);
  if (!declared && declared.status().code == Code::not_found) return std::string();
  return declared;
}

}  // namespace holdfast
