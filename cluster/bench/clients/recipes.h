// Locks that a program can get from etcd without an agent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/store.h"
#include "session.h"

namespace holdfast::bench {

class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

/// etcd's own lock service, through its gateway.
class StockLock final : public Recipe {
 public:
  StockLock(const std::string& url, const std::string& name);
  void lock() override;
  void unlock() override;

 private:
  Session session_;
  const std::string request_;
  std::string held_;  // the body of the request that releases the lock
};

/// A queue of keys in order of creation. Each client waits until the previous key is gone, so a release wakes only one
/// client. Before it continues, the client checks that its key is the first.
class QueueLock final : public Recipe {
 public:
  QueueLock(const std::string& url, const std::string& name);
  void lock() override;
  void unlock() override;

 private:
  using Queue = std::vector<agent::Record>;

  Queue look();
  /// Returns the key before this client's key, or none if this client's key is the first. Throws if this client's key
  /// is gone.
  const agent::Record* before(const Queue& queue) const;

  Session session_;
  const std::string prefix_;
  std::string key_;
  agent::Revision place_ = 0;  // the revision in which the key was created
  std::uint64_t count_ = 0;
};

/// Does not lock at all, to show that the check finds overlaps.
class NoLock final : public Recipe {
 public:
  void lock() override {}
  void unlock() override {}
};

}  // namespace holdfast::bench
