#include "etcd/watch.h"

#include <utility>

#include "etcd/errors.h"
#include "etcd/json.h"

namespace holdfast::etcd {

using agent::Outcome;

namespace {

/// A watch that ends before this time counts as failed, because a proxy in front of the server may cut off every watch.
constexpr std::int64_t kLastingMs = 1000;

}  // namespace

Watch::Watch(Client& client) : client_(client), backoff_(client.options().seed + 1) {
  client_.on_move([this] { moved(); });
}

Watch::~Watch() {
  client_.on_move({});
  client_.loop().cancel(timer_);
}

void Watch::start(const std::string& key, std::function<void(const agent::Record&)> rung) {
  key_ = key;
  rung_ = std::move(rung);
  backoff_.reset();
  begin_after(0);
}

// Begins a watch, but only from the loop, because a callback of the transfer that ends here may be running.
void Watch::begin_after(std::int64_t delay_ms) {
  ++opening_;
  waits_ = true;
  began_ms_ = 0;
  client_.loop().cancel(timer_);
  timer_ = client_.loop().after(delay_ms, [this] { begin(); });
}

void Watch::begin() {
  transfer_.reset();
  const std::uint64_t opening = ++opening_;
  if (const std::int64_t pause = client_.endpoints().pause_ms(boottime_ms()); pause > 0) return begin_after(pause);
  waits_ = false;
  endpoint_ = client_.endpoints().current();
  if (!client_.auth().lacks_token()) return open();
  client_.auth().obtain(client_.endpoints().url(endpoint_), client_.options().timeout_ms,
                        [this, opening, alive = std::weak_ptr<int>(alive_)](const Verdict* failure) {
                          if (alive.expired() || opening != opening_) return;
                          if (failure == nullptr) return open();
                          Verdict verdict = *failure;
                          if (verdict.outcome == Outcome::unknown) verdict.elsewhere = true;
                          trouble(verdict);
                        });
}

void Watch::open() {
  token_ = client_.auth().token();
  Request request;
  request.url = client_.endpoints().url(endpoint_) + "/v3/watch";
  request.headers = client_.headers(token_);
  request.body = encode_watch(key_);
  request.timeout_ms = client_.options().timeout_ms;
  const std::uint64_t opening = opening_;
  transfer_ = client_.http().stream(
      std::move(request),
      [this, opening](const std::string& text) {
        if (opening == opening_) line(text);
      },
      [this, opening](const Response& response) {
        if (opening == opening_) ended(response);
      });
  timer_ = client_.loop().after(client_.options().timeout_ms, [this] {
    trouble({.elsewhere = true,
             .cause = "did not start the watch within " + std::to_string(client_.options().timeout_ms) + " ms"});
  });
}

void Watch::line(const std::string& text) {
  const auto parsed = decode_watch_line(text);
  if (!parsed) {
    const auto error = decode_error(text);
    return trouble(error ? judge(*error, client_.auth().has_user())
                         : Verdict{.cause = "sent something other than watch events"});
  }
  if (auto stranger = client_.judge_cluster(endpoint_, text)) {
    stranger->elsewhere = true;
    return trouble(*stranger);
  }
  if (parsed->canceled) return trouble(judge_cancellation(parsed->reason, client_.auth().has_user()));
  client_.loop().cancel(timer_);
  client_.worked(endpoint_);
  if (began_ms_ == 0) began_ms_ = boottime_ms();
  const auto rung = rung_;  // the callback may replace the watch
  for (const agent::Record& record : parsed->events) rung(record);
}

void Watch::ended(const Response& response) {
  if (response.status != 200 && response.ended) {
    Verdict verdict = judge(response.status, response.body, client_.auth().has_user());
    verdict.elsewhere = verdict.elsewhere || verdict.outcome == Outcome::unknown;
    return trouble(verdict);
  }
  if (response.status == 200 && !response.body.empty()) {
    const std::uint64_t opening = opening_;
    line(response.body);
    if (opening != opening_) return;
  }
  if (response.ended) client_.auth().reject(token_);
  trouble({.elsewhere = !response.ended,
           .cause = response.ended ? "ended the watch" : "ended the watch: " + response.failure});
}

// Handles an error that ends this watch. A new watch follows.
void Watch::trouble(const Verdict& verdict) {
  if (verdict.token) client_.auth().reject(token_);
  const std::string text = sentence(client_.endpoints().url(endpoint_), verdict.cause) + "; the agent restarts it";
  client_.complain(text);
  if (began_ms_ != 0 && boottime_ms() - began_ms_ >= kLastingMs) backoff_.reset();
  begin_after(backoff_.next_ms());
  if (verdict.elsewhere) client_.leave(endpoint_, text);
}

void Watch::moved() {
  if (rung_ && transfer_ && !waits_ && endpoint_ != client_.endpoints().current()) begin_after(0);
}

}  // namespace holdfast::etcd
