// Implements the agent's store with etcd, through etcd's JSON gateway.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/store.h"
#include "etcd/client.h"
#include "etcd/versions.h"
#include "etcd/watch.h"

namespace holdfast::etcd {

class EtcdStore final : public agent::Store {
 public:
  /// Does not send anything yet. After the destruction of the store, no more callbacks run. A callback must not destroy
  /// the store.
  EtcdStore(Loop& loop, Options options);
  ~EtcdStore() override;

  void transact(agent::Change change, std::function<void(const agent::Answer&)> done) override;
  void grant(std::int64_t ttl_s, std::function<void(const agent::LeaseAnswer&)> done) override;
  void keep_alive(agent::LeaseId lease, std::function<void(const agent::LeaseAnswer&)> done) override;
  void revoke(agent::LeaseId lease, std::function<void(const agent::Answer&)> done) override;
  void keys_of(agent::LeaseId lease, std::function<void(const agent::LeaseAnswer&)> done) override;
  void watch(const std::string& key, std::function<void(const agent::Record&)> rung) override;

  /// Asks each endpoint for its version. An earlier question that is still pending ends without an answer.
  void versions(VersionQuestion::Done done);

 private:
  void ask_lease(const std::string& path, const std::string& body,
                 std::optional<agent::LeaseAnswer> (*decode)(const std::string&),
                 std::function<void(const agent::LeaseAnswer&)> done);

  Client client_;
  Watch watch_;
  std::unique_ptr<VersionQuestion> question_;
};

}  // namespace holdfast::etcd
