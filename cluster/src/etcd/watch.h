// Watches one key. Whenever the watch ends, begins a new one. It requests no start revision, so events between two
// watches are lost, but compaction does not matter.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/store.h"
#include "etcd/client.h"

namespace holdfast::etcd {

class Watch {
 public:
  explicit Watch(Client& client);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Starts to watch this key instead of the previous one.
  void start(const std::string& key, std::function<void(const agent::Record&)> rung);

 private:
  void begin();
  void begin_after(std::int64_t delay_ms);
  void open();
  void line(const std::string& text);
  void ended(const Response& response);
  void trouble(const Verdict& verdict);
  void moved();

  Client& client_;
  std::string key_;
  std::function<void(const agent::Record&)> rung_;
  Backoff backoff_;
  std::size_t endpoint_ = 0;
  std::string token_;
  Loop::TimerId timer_ = 0;
  std::unique_ptr<Transfer> transfer_;
  std::uint64_t opening_ = 0;  // the number of the watch; results of earlier watches are ignored
  bool waits_ = false;         // a new watch begins soon
  std::int64_t began_ms_ = 0;  // when the server confirmed the watch; 0: not yet
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace holdfast::etcd
