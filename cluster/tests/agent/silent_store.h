// A store that never answers. Tests override the calls that they need.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/store.h"

namespace holdfast::test {

class SilentStore : public agent::Store {
 public:
  void transact(agent::Change, std::function<void(const agent::Answer&)>) override {}
  void grant(std::int64_t, std::function<void(const agent::LeaseAnswer&)>) override {}
  void keep_alive(agent::LeaseId, std::function<void(const agent::LeaseAnswer&)>) override {}
  void revoke(agent::LeaseId, std::function<void(const agent::Answer&)>) override {}
  void keys_of(agent::LeaseId, std::function<void(const agent::LeaseAnswer&)>) override {}
  void watch(const std::string&, std::function<void(const agent::Record&)>) override {}
};

}  // namespace holdfast::test
