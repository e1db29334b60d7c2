// A client's sequential requests to etcd, with the agent's own HTTP and JSON code.
#pragma once

#include <memory>
#include <string>

#include "agent/store.h"
#include "etcd/client.h"
#include "etcd/http.h"
#include "etcd/loop.h"

namespace holdfast::bench {

class Session {
 public:
  /// Gets a lease that outlives every run. All calls throw if etcd does not do what they request.
  explicit Session(const std::string& url);

  agent::LeaseId lease() const { return lease_; }
  agent::Answer transact(const agent::Change& change);
  /// Makes a call that the agent never makes. Returns the body of the answer.
  std::string post(const std::string& path, std::string body);

 private:
  friend class KeyWatch;

  void ask(const std::string& path, std::string body, etcd::Client::Understand understand);

  const std::string url_;
  etcd::Loop loop_;
  etcd::Client client_;
  agent::LeaseId lease_ = 0;
};

/// Watches one key as long as the object lives. The watch has no start revision, because etcd serves watches that start
/// in the past only every 100 ms.
class KeyWatch {
 public:
  KeyWatch(Session& session, const std::string& key);

  /// Returns when the watch works: it misses no later deletion.
  void await_begin();
  void await_deletion();

 private:
  void read(const std::string& line);
  void await(const bool& event);

  Session& session_;
  bool begun_ = false;
  bool deleted_ = false;
  bool ended_ = false;
  std::unique_ptr<etcd::Transfer> transfer_;
};

}  // namespace holdfast::bench
