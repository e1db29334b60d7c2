// Takes snapshots of the runtime directories of all users, when root runs `holdfast top`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inspect/snapshot.h"

namespace holdfast::inspect {

class Snapshots {
 public:
  /// Takes a snapshot of each directory, and merges them. Each dictionary and lock in the result has a user.
  Snapshot take(const std::vector<std::string>& names);

 private:
  std::map<std::string, std::string> given_up_;  // maps a path to the reason why the directory is not read again
};

}  // namespace holdfast::inspect
