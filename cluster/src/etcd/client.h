// Sends a request to one of several etcd endpoints, with a token if there is a user.
// If it is certain that no server has executed a request, the request is repeated: once at each of the other endpoints,
// and once with a new token. For any other failure, the outcome is `unknown`, and the caller decides whether to repeat
// the request, which may then be executed twice.
//
// The number of requests that run at the same time is limited, because each request has its own connection. Further
// requests are queued. Urgent requests are never queued, because a keepalive must not wait until thousands of locks
// have been requested. If a queued request is no longer wanted, it is dropped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/store.h"
#include "etcd/auth.h"
#include "etcd/endpoints.h"
#include "etcd/http.h"
#include "etcd/identity.h"

namespace holdfast::etcd {

struct Options {
  std::vector<std::string> endpoints;  // at least one, such as "https://host:2379"
  Tls tls;
  Credentials credentials;
  std::int64_t timeout_ms = 1000;  // for one request at one endpoint
  std::uint64_t seed = 0;          // for random pauses between attempts
  /// Decides which store's answers count. If this is null, all answers count. The object must outlive the client.
  Identity* identity = nullptr;
  /// Receives messages for the log, for example that the watch fails, that a different endpoint is used, or that
  /// requests are refused. The function may be empty.
  std::function<void(const std::string& sentence)> complain;

  /// Returns a timeout that is short enough to repeat a keepalive several times within a lease.
  static std::int64_t timeout_for(std::int64_t ttl_s) { return std::min<std::int64_t>(1000, ttl_s * 1000 / 6); }
};

class Client {
 public:
  /// Takes the body of an answer with status 200. Returns false if the body is not an answer.
  using Understand = std::function<bool(const std::string& body)>;
  using Done = std::function<void(const agent::Answer&)>;
  enum class Rank { ordinary, urgent };
  /// Returns whether an ordinary request is still wanted. If this is empty, the request is always wanted.
  using Wanted = std::function<bool()>;
  /// The maximum number of ordinary requests that run at the same time. No benchmark reaches this limit.
  static constexpr std::size_t kAtOnce = 64;

  Client(Loop& loop, Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Loop& loop() noexcept { return loop_; }
  const Options& options() const noexcept { return options_; }
  Http& http() noexcept { return http_; }
  Auth& auth() noexcept { return auth_; }
  Endpoints& endpoints() noexcept { return endpoints_; }

  /// Sends a request. Calls `done` once, later, unless the client is destroyed or the request is dropped. `understand`
  /// stores the whole answer, except for the outcome and Answer::queued_us.
  void post(const std::string& path, std::string body, Rank rank, Understand understand, Done done, Wanted wanted = {});
  /// Sends an urgent request without a body.
  void get(const std::string& path, Understand understand, Done done);

  /// Stops using this endpoint after a failure that took `took_ms`, and calls `moved`.
  void leave(std::size_t endpoint, const std::string& sentence, std::int64_t took_ms = 0);
  void on_move(std::function<void()> moved) { moved_ = std::move(moved); }
  /// Records that the endpoint answered.
  void worked(std::size_t endpoint);
  /// Returns an error if the endpoint does not belong to the known cluster. Its answers then do not count.
  std::optional<Verdict> judge_cluster(std::size_t endpoint, const std::string& text);
  /// Reports a sentence, but not a second time until a request has succeeded.
  void complain(const std::string& sentence);
  /// Reports why requests are refused. Repeats the report once a minute while requests are refused. Does not report a
  /// lease that is gone.
  void complain_of_refusal(agent::Fault fault, const std::string& sentence);

  /// Returns the headers of each request.
  std::vector<std::string> headers(const std::string& token) const;

 private:
  class Call;
  friend class Call;

  void begin(std::unique_ptr<Call> call);
  void begin_waiting();

  Loop& loop_;
  const Options options_;
  Http http_;
  Auth auth_;
  Endpoints endpoints_;
  std::function<void()> moved_;
  std::set<std::string> complaints_;
  std::map<std::string, std::int64_t> refusals_;  // when each message was last reported
  std::vector<std::unique_ptr<Call>> calls_;
  std::size_t ordinary_ = 0;  // the number of ordinary calls among them
  std::deque<std::unique_ptr<Call>> waiting_;
};

}  // namespace holdfast::etcd
