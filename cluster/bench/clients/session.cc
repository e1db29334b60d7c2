#include "session.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "etcd/json.h"

namespace holdfast::bench {

namespace {

// Longer than any wait for a lock.
constexpr std::int64_t kPatienceMs = 60'000;
constexpr std::int64_t kLeaseSeconds = 600;
constexpr std::int64_t kTurnMs = 1000;

etcd::Options options_for(const std::string& url) {
  etcd::Options options;
  options.endpoints = {url};
  options.timeout_ms = kPatienceMs;
  return options;
}

}  // namespace

Session::Session(const std::string& url) : url_(url), client_(loop_, options_for(url)) {
  ask("/v3/lease/grant", etcd::encode_grant(kLeaseSeconds), [this](const std::string& body) {
    const auto answer = etcd::decode_grant(body);
    if (answer) lease_ = answer->lease;
    return answer.has_value();
  });
}

agent::Answer Session::transact(const agent::Change& change) {
  agent::Answer result;
  ask("/v3/kv/txn", etcd::encode_change(change), [&](const std::string& body) {
    auto answer = etcd::decode_change(body, change);
    if (answer) result = *std::move(answer);
    return answer.has_value();
  });
  return result;
}

std::string Session::post(const std::string& path, std::string body) {
  std::string result;
  ask(path, std::move(body), [&](const std::string& answer) {
    result = answer;
    return true;
  });
  return result;
}

void Session::ask(const std::string& path, std::string body, etcd::Client::Understand understand) {
  std::optional<agent::Answer> outcome;
  client_.post(path, std::move(body), etcd::Client::Rank::ordinary, std::move(understand),
               [&](const agent::Answer& answer) { outcome = answer; });
  while (!outcome) loop_.turn(kTurnMs);
  if (outcome->outcome != agent::Outcome::answered) throw std::runtime_error(outcome->sentence);
}

KeyWatch::KeyWatch(Session& session, const std::string& key) : session_(session) {
  etcd::Request request;
  request.url = session.url_ + "/v3/watch";
  request.headers = session.client_.headers("");
  request.body = etcd::encode_watch(key);
  transfer_ = session.client_.http().stream(
      std::move(request), [this](const std::string& line) { read(line); },
      [this](const etcd::Response&) { ended_ = true; });
}

void KeyWatch::read(const std::string& line) {
  const auto parsed = etcd::decode_watch_line(line);
  ended_ = ended_ || !parsed || parsed->canceled;
  if (!parsed) return;
  begun_ = begun_ || parsed->created;
  for (const agent::Record& record : parsed->events) deleted_ = deleted_ || record.modified == 0;
}

void KeyWatch::await_begin() { await(begun_); }
void KeyWatch::await_deletion() { await(deleted_); }

void KeyWatch::await(const bool& event) {
  while (!event && !ended_) session_.loop_.turn(kTurnMs);
  if (!event) throw std::runtime_error("etcd ended a watch");
}

}  // namespace holdfast::bench
