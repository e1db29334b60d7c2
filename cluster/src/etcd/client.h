// A request to one of several endpoints of etcd, with a token where there is a user.
//
// A request of which no server can have done anything is made anew at the other endpoints, once at each, and once with
// a new token. All others end in `unknown`: to repeat them is left to the caller, as they may then be done twice.
//
// A limited number of requests is under way, as each has a connection of its own; others wait for their turn. Those
// that are urgent do not: a keepalive must not wait until thousands of locks have been asked for. One that nobody wants
// any more when its turn comes is dropped.
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
  std::vector<std::string> endpoints;  // as "https://host:2379"; at least one
  Tls tls;
  Credentials credentials;
  std::int64_t timeout_ms = 1000;  // of one request at one endpoint
  std::uint64_t seed = 0;          // of the pauses between attempts
  /// Judges which store answers. None: each counts. It lives longer than the client.
  Identity* identity = nullptr;
  /// Told of what people have to know: the watch cannot be made, another endpoint is asked, requests are refused. May
  /// be empty.
  std::function<void(const std::string& sentence)> complain;

  /// So long that a keepalive can be repeated several times within a lease.
  static std::int64_t timeout_for(std::int64_t ttl_s) { return std::min<std::int64_t>(1000, ttl_s * 1000 / 6); }
};

class Client {
 public:
  /// Takes the body of an answer with status 200. False: that is no answer.
  using Understand = std::function<bool(const std::string& body)>;
  using Done = std::function<void(const agent::Answer&)>;
  enum class Rank { ordinary, urgent };
  /// Whether an ordinary request is still to be sent; empty: yes.
  using Wanted = std::function<bool()>;
  /// Ordinary requests at one time. No row has as many.
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

  /// Calls `done` once, later, unless the client ends before, or the request is dropped. If the answer was understood,
  /// what it says beyond its outcome is for `understand` to keep, but for Answer::queued_us.
  void post(const std::string& path, std::string body, Rank rank, Understand understand, Done done, Wanted wanted = {});
  /// Asks for a path without a body. Urgent.
  void get(const std::string& path, Understand understand, Done done);

  /// An endpoint did not do what it should, for so long: another is the current one, and `moved` is called.
  void leave(std::size_t endpoint, const std::string& sentence, std::int64_t took_ms = 0);
  void on_move(std::function<void()> moved) { moved_ = std::move(moved); }
  /// It answered.
  void worked(std::size_t endpoint);
  /// Nothing, or that the endpoint is of another cluster than the known one: what it says does not count.
  std::optional<Verdict> judge_cluster(std::size_t endpoint, const std::string& text);
  /// Tells a sentence once until something works.
  void complain(const std::string& sentence);
  /// Tells why requests are refused, once a minute, as long as they are. A lease that is gone is nothing to tell of.
  void complain_of_refusal(agent::Fault fault, const std::string& sentence);

  /// The headers that go with each request.
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
  std::map<std::string, std::int64_t> refusals_;  // when each was told
  std::vector<std::unique_ptr<Call>> calls_;
  std::size_t ordinary_ = 0;  // of them
  std::deque<std::unique_ptr<Call>> waiting_;
};

}  // namespace holdfast::etcd
