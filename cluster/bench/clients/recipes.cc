#include "recipes.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "agent/keys.h"
#include "etcd/json.h"

namespace holdfast::bench {

using agent::Change;
using agent::Guard;
using agent::Step;

StockLock::StockLock(const std::string& url, const std::string& name)
    : session_(url),
      request_(nlohmann::json{{"name", etcd::to_base64(name)}, {"lease", std::to_string(session_.lease())}}.dump()) {}

void StockLock::lock() {
  const auto answer = nlohmann::json::parse(session_.post("/v3/lock/lock", request_), nullptr, false);
  if (!answer.is_object() || !answer.contains("key")) throw std::runtime_error("etcd's lock service granted no lock");
  held_ = nlohmann::json{{"key", answer["key"]}}.dump();
}

void StockLock::unlock() { session_.post("/v3/lock/unlock", held_); }

QueueLock::QueueLock(const std::string& url, const std::string& name) : session_(url), prefix_(name + "/") {}

void QueueLock::lock() {
  key_ = prefix_ + agent::encode_lease(session_.lease()) + "-" + std::to_string(++count_);
  const Change enqueue{
      {{Guard::Of::created, key_, 0, false}}, {Step::put(key_, "", session_.lease()), Step::oldest(prefix_, 0)}, {}};
  const agent::Answer answer = session_.transact(enqueue);
  if (!answer.guarded) throw std::runtime_error("the queue already has this key");
  place_ = answer.revision;
  Queue queue = answer.found.front();
  while (const agent::Record* first = before(queue)) {
    const std::string watched = first->key;
    KeyWatch watch(session_, watched);
    watch.await_begin();
    // The key may have been deleted before the watch began.
    queue = look();
    const agent::Record* second = before(queue);
    if (second == nullptr || second->key != watched) continue;
    watch.await_deletion();
    queue = look();
  }
}

void QueueLock::unlock() { session_.transact({{{Guard::Of::created, key_, place_, false}}, {Step::erase(key_)}, {}}); }

QueueLock::Queue QueueLock::look() { return session_.transact({{}, {Step::oldest(prefix_, 0)}, {}}).found.front(); }

const agent::Record* QueueLock::before(const Queue& queue) const {
  const agent::Record* previous = nullptr;
  for (const agent::Record& record : queue) {
    if (record.key == key_) return previous;
    previous = &record;
  }
  throw std::runtime_error("the client's key in the queue is gone");
}

}  // namespace holdfast::bench
