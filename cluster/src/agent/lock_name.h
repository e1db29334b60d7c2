// The name of a lock of a cluster, the same on every machine.
#pragma once

#include <string>
#include <tuple>

namespace holdfast::agent {

struct LockName {
  std::string dictionary;
  std::string key;

  bool operator==(const LockName&) const = default;
  bool operator<(const LockName& other) const {
    return std::tie(dictionary, key) < std::tie(other.dictionary, other.key);
  }
};

}  // namespace holdfast::agent
