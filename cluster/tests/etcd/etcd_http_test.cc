// Tests the store's client with a server that answers late, wrongly, in parts, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "etcd/fake_server.h"
#include "etcd/store_test.h"

namespace holdfast::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHeader = R"("header":{"cluster_id":"1","member_id":"2","revision":"7","raft_term":"2"})";
const std::string kDone =
    "{" + kHeader + R"(,"succeeded":true,"responses":[{"response_put":{"header":{"revision":"7"}}}]})";
const std::string kKept = R"({"result":{)" + kHeader + R"(,"ID":"5","TTL":"10"}})" + "\n";
const std::string kBegun = R"({"result":{)" + kHeader + R"(,"created":true}})" + "\n";
const std::string kBadToken =
    R"({"error":"etcdserver: invalid auth token","message":"etcdserver: invalid auth token","code":16})";

std::string event(const std::string& value, int revision) {
  return R"({"result":{)" + kHeader + R"(,"events":[{"kv":{"key":"Yg==","create_revision":"3","mod_revision":")" +
         std::to_string(revision) + R"(","value":")" + value + R"("}}]}})" + "\n";
}

Change one_put() {
  Change change;
  change.then = {Step::put("l", "v", 0)};
  return change;
}

/// Returns a handler that gives the same answer to every request.
FakeServer::Handler says(int status, const std::string& body) {
  return [=](const FakeRequest&, FakeConnection& connection) { connection.answer(status, body); };
}

class EtcdHttpTest : public StoreTest {
 protected:
  static constexpr std::int64_t kShortMs = 150;  // a timeout that tests wait for

  void open_with_user(const std::string& endpoint) {
    std::ofstream(directory_ / "password") << "secret\n";
    auto with_user = options({endpoint});
    with_user.credentials = {"hf", directory_ / "password"};
    open(std::move(with_user));
  }
  void open_hasty(std::vector<std::string> endpoints) {
    auto hasty = options(std::move(endpoints));
    hasty.timeout_ms = kShortMs;
    open(std::move(hasty));
  }

  ScratchDirectory directory_;
};

TEST_F(EtcdHttpTest, uses_one_connection_and_requires_a_leader) {
  FakeServer server(says(200, kDone));
  open(options({server.url() + "/"}));
  for (int i = 1; i <= 3; ++i) {
    const Answer answer = transact(one_put());
    ASSERT_EQ(answer.outcome, Outcome::answered) << answer.sentence;
    EXPECT_EQ(server.seen().back().of_connection, i);
  }
  const FakeRequest request = server.seen().back();
  EXPECT_EQ(request.path, "/v3/kv/txn");
  EXPECT_EQ(request.headers.at("grpc-metadata-hasleader"), "true");
  EXPECT_EQ(request.headers.count("authorization"), 0u);
}

TEST_F(EtcdHttpTest, uses_only_the_configured_servers_whatever_the_environment_says) {
  FakeServer server(says(200, kDone));
  FakeServer proxy(says(200, "{}"));
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  open(options({server.url()}));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  ::unsetenv("http_proxy");
  EXPECT_TRUE(proxy.seen().empty());
}

// By default, libcurl sends such a request again over a new connection, although the server may have executed the first
// request.
TEST_F(EtcdHttpTest, never_sends_a_request_twice_when_a_connection_in_use_ends_without_an_answer) {
  FakeServer server([](const FakeRequest& request, FakeConnection& connection) {
    if (request.of_connection == 1) return connection.answer(200, kDone);
    connection.close();
  });
  open(options({server.url()}));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_EQ(answer.sentence,
            "etcd at " + server.url() + " does not answer: it closed the connection before the answer");
  EXPECT_EQ(server.count("/v3/kv/txn"), 2);
}

TEST_F(EtcdHttpTest, treats_the_result_of_a_change_without_a_complete_answer_as_unknown) {
  const std::string cut = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + kDone;
  const std::pair<const char*, FakeServer::Handler> all[] = {
      {"no answer", [](const FakeRequest&, FakeConnection& connection) { connection.close(); }},
      {"half a status line",
       [](const FakeRequest&, FakeConnection& connection) {
         connection.send("HTTP/1.1 2");
         connection.close();
       }},
      {"less than was promised",
       [cut](const FakeRequest&, FakeConnection& connection) {
         connection.send(cut);
         connection.close();
       }},
      {"a stream that ends within a chunk",
       [](const FakeRequest&, FakeConnection& connection) {
         connection.begin_stream();
         connection.send("fff\r\n" + kDone);
         connection.close();
       }},
      {"nothing", says(200, "")},
      {"an empty object", says(200, "{}")},
      {"a page", says(200, "<html>welcome</html>")},
      {"half a transaction", says(200, kDone.substr(0, kDone.size() - 3))},
      {"another's answer", says(200, "{" + kHeader + "}")},
      {"a gateway's error", says(503, "upstream connect error")},
      {"a leader that changed", says(503, R"({"error":"etcdserver: leader changed","code":14})")},
  };
  for (const auto& [what, handler] : all) {
    FakeServer server(handler);
    open(options({server.url()}));
    const Answer answer = transact(one_put());
    EXPECT_EQ(answer.outcome, Outcome::unknown) << what;
    EXPECT_THAT(answer.sentence, HasSubstr("etcd at " + server.url())) << what;
    EXPECT_EQ(server.count("/v3/kv/txn"), 1) << what;
    store_.reset();
  }
}

TEST_F(EtcdHttpTest, suggests_tls_if_the_connection_is_reset_before_an_answer) {
  FakeServer server([](const FakeRequest&, FakeConnection& connection) { connection.reset(); });
  open(options({server.url()}));
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_THAT(answer.sentence, HasSubstr("; if it uses TLS, write https://"));
}

TEST_F(EtcdHttpTest, does_not_suggest_tls_if_a_server_that_has_answered_cuts_the_connection) {
  std::atomic<int> requests{0};
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    if (++requests == 1) return connection.answer(200, kDone);
    connection.reset();
  });
  open(options({server.url()}));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_EQ(answer.sentence.find("https"), std::string::npos) << answer.sentence;
}

TEST_F(EtcdHttpTest, abandons_a_request_that_is_never_answered) {
  FakeServer server([](const FakeRequest&, FakeConnection& connection) { connection.stay_silent(); });
  open_hasty({server.url()});
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_EQ(answer.sentence, "etcd at " + server.url() + " does not answer: nothing arrived within 150 ms");
}

TEST_F(EtcdHttpTest, does_not_take_a_late_answer_for_the_answer_to_the_next_request) {
  std::atomic<bool> late{true};
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    if (late.exchange(false)) ::usleep(2 * kShortMs * 1000);
    connection.answer(200, "{" + kHeader + (late ? "}" : R"(,"ID":"77","TTL":"5"})"));
  });
  open_hasty({server.url()});
  EXPECT_EQ(grant(5).answer.outcome, Outcome::unknown);
  store_.reset();
  open(options({server.url()}));
  const auto granted = grant(5);
  EXPECT_EQ(granted.answer.outcome, Outcome::answered);
  EXPECT_EQ(granted.lease, 77);
  EXPECT_EQ(server.seen().back().of_connection, 1);
}

TEST_F(EtcdHttpTest, assembles_an_answer_from_parts) {
  FakeServer server([](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    for (const char byte : kKept) connection.chunk(std::string(1, byte));
    connection.end_stream();
  });
  open(options({server.url()}));
  const auto kept = keep_alive(5);
  EXPECT_EQ(kept.answer.outcome, Outcome::answered);
  EXPECT_EQ(kept.ttl_s, 10);
}

TEST_F(EtcdHttpTest, distinguishes_a_refusal_from_an_answer) {
  struct {
    int status;
    const char* body;
    Fault fault;
    const char* words;
  } const all[] = {
      {404, R"({"error":"etcdserver: requested lease not found","code":5})", Fault::no_lease, "lease not found"},
      {404, "Not Found\n", Fault::other, "enable-grpc-gateway: true"},
      {403, R"({"code":7,"message":"etcdserver: permission denied"})", Fault::denied, "permission denied"},
      {401, "go away", Fault::denied, "401: go away"},
      {429, R"({"error":"etcdserver: mvcc: database space exceeded","code":8})", Fault::no_space, "space exceeded"},
      {503, R"({"error":"etcdserver: no leader","code":14})", Fault::no_leader, "no leader"},
      {400, "CommonName of client sending a request against gateway will be ignored", Fault::denied, "without CN"},
  };
  for (const auto& said : all) {
    FakeServer server(says(said.status, said.body));
    open(options({server.url()}));
    const Answer answer = transact(one_put());
    EXPECT_EQ(answer.outcome, Outcome::refused) << said.body;
    EXPECT_EQ(answer.fault, said.fault) << said.body;
    EXPECT_THAT(answer.sentence, HasSubstr(said.words));
    EXPECT_THAT(answer.sentence, HasSubstr("etcd at " + server.url()));
    store_.reset();
  }
}

TEST_F(EtcdHttpTest, reports_the_reason_of_a_refusal_once_even_if_other_requests_are_answered) {
  const std::string full = R"({"error":"etcdserver: mvcc: database space exceeded","code":8})";
  const std::string no_lease = R"({"error":"etcdserver: requested lease not found","code":5})";
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/lease/keepalive") return connection.answer(200, kKept);
    if (request.path == "/v3/lease/revoke") return connection.answer(404, no_lease);
    connection.answer(429, full);
  });
  open(options({server.url()}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(transact(one_put()).fault, Fault::no_space);
    EXPECT_EQ(keep_alive(5).answer.outcome, Outcome::answered);
    EXPECT_EQ(revoke(5).fault, Fault::no_lease);
  }
  EXPECT_THAT(complaints_, ElementsAre(HasSubstr("database space exceeded")));
}

// --- several endpoints ----------------------------------------------------------------------------------

TEST_F(EtcdHttpTest, moves_to_the_next_endpoint_if_the_request_cannot_have_had_an_effect) {
  const std::string closed = "http://127.0.0.1:" + std::to_string(free_port());
  FakeServer leaderless(says(503, R"({"error":"etcdserver: no leader","code":14})"));
  FakeServer gateless(says(404, "Not Found\n"));
  FakeServer sound(says(200, kDone));
  open(options({closed, leaderless.url(), gateless.url(), sound.url()}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  EXPECT_EQ(leaderless.seen().size(), 1u);
  EXPECT_EQ(gateless.seen().size(), 1u);
  EXPECT_EQ(sound.seen().size(), 3u);
  EXPECT_TRUE(has_complained("etcd at " + closed + " does not answer: Connection refused"));
}

TEST_F(EtcdHttpTest, does_not_repeat_a_request_that_may_have_had_an_effect_at_another_endpoint) {
  FakeServer broken([](const FakeRequest&, FakeConnection& connection) { connection.close(); });
  FakeServer sound(says(200, kDone));
  open(options({broken.url(), sound.url()}));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::unknown);
  EXPECT_TRUE(sound.seen().empty());
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  EXPECT_EQ(broken.seen().size(), 1u);
}

/// Returns a handler that names a cluster in its answers.
FakeServer::Handler of_cluster(int id, const std::atomic<bool>& answers) {
  return [&answers, id](const FakeRequest&, FakeConnection& connection) {
    if (!answers) return connection.close();
    std::string body = kDone;
    body.replace(body.find(R"("1")"), 3, '"' + std::to_string(id) + '"');
    connection.answer(200, body);
  };
}

TEST_F(EtcdHttpTest, accepts_nothing_from_a_server_of_an_unknown_cluster) {
  std::atomic<bool> one_answers = true;
  const std::atomic<bool> two_answers = true;
  FakeServer one(of_cluster(7, one_answers));
  FakeServer two(of_cluster(8, two_answers));
  etcd::Identity identity(2, "7", 10'000);
  etcd::Options judged = options({one.url(), two.url()});
  judged.identity = &identity;
  open(std::move(judged));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  one_answers = false;
  EXPECT_EQ(transact(one_put()).outcome, Outcome::unknown);
  const Answer stranger = transact(one_put());
  EXPECT_EQ(stranger.outcome, Outcome::unknown);
  EXPECT_EQ(stranger.sentence, "etcd at " + two.url() +
                                   " belongs to a different etcd cluster: 0000000000000008, expected "
                                   "0000000000000007");
  one_answers = true;
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  store_.reset();
}

TEST_F(EtcdHttpTest, accepts_no_answer_before_most_servers_name_the_same_cluster) {
  const std::atomic<bool> answers = true;
  std::atomic<bool> other_answers = false;
  FakeServer one(of_cluster(7, answers));
  FakeServer two(of_cluster(7, other_answers));
  const std::string silent = "http://127.0.0.1:" + std::to_string(free_port());
  etcd::Identity identity(3, "", 10'000);
  etcd::Options judged = options({one.url(), silent, two.url()});
  judged.identity = &identity;
  open(std::move(judged));
  EXPECT_THAT(transact(one_put()).sentence,
              HasSubstr("belongs to etcd cluster 0000000000000007, to which only 1 of 3 endpoints belong"));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::unknown);
  other_answers = true;
  EXPECT_TRUE(await([&] { return transact(one_put()).outcome == Outcome::answered; }));
  EXPECT_EQ(identity.known(), "7");
  store_.reset();
}

TEST_F(EtcdHttpTest, tries_each_endpoint_once_and_reports_that_none_can_be_reached) {
  const std::string first = "http://127.0.0.1:" + std::to_string(free_port());
  const std::string second = "http://127.0.0.1:" + std::to_string(free_port());
  open(options({first, second}));
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::unknown);
  EXPECT_EQ(answer.sentence, "etcd at " + second + " does not answer: Connection refused");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(transact(one_put()).outcome, Outcome::unknown);
  EXPECT_EQ(complaints_.size(), 2u) << "each endpoint must be reported only once until an endpoint works";
}

TEST_F(EtcdHttpTest, can_send_a_request_from_a_callback) {
  FakeServer server(says(200, kDone));
  open(options({server.url()}));
  int answered = 0;
  std::function<void(const Answer&)> again = [&](const Answer&) {
    if (++answered < 5) store_->transact(one_put(), again);
  };
  store_->transact(one_put(), again);
  EXPECT_TRUE(await([&] { return answered == 5; }));
}

TEST_F(EtcdHttpTest, runs_no_callback_after_the_store_has_ended) {
  FakeServer server(says(200, kDone));
  open(options({server.url()}));
  bool called = false;
  store_->transact(one_put(), [&](const Answer&) { called = true; });
  watch("b");
  loop_.turn(1);
  store_.reset();
  idle(std::chrono::milliseconds(50));
  EXPECT_FALSE(called);
}

// --- user and password ----------------------------------------------------------------------------------

/// A server that accepts only one token at a time.
class TokenServer {
 public:
  explicit TokenServer(std::string unknown_token_answer = kBadToken, int status = 401)
      : unknown_(std::move(unknown_token_answer)),
        status_(status),
        server_([this](const FakeRequest& request, FakeConnection& connection) { serve(request, connection); }) {}

  void forget() { ++token_; }
  std::string url() const { return server_.url(); }
  int count(const std::string& path) { return server_.count(path); }
  FakeRequest last() { return server_.seen().back(); }

 private:
  void serve(const FakeRequest& request, FakeConnection& connection) {
    const std::string token = "token." + std::to_string(token_);
    if (request.path == "/v3/auth/authenticate")
      return connection.answer(200, "{" + kHeader + R"(,"token":")" + token + R"("})");
    const auto given = request.headers.find("authorization");
    if (given == request.headers.end() || given->second != token) return connection.answer(status_, unknown_);
    connection.answer(200, request.path == "/v3/lease/keepalive" ? kKept : kDone);
  }

  const std::string unknown_;
  const int status_;
  std::atomic<int> token_{1};
  FakeServer server_;
};

TEST_F(EtcdHttpTest, gets_one_token_for_all_requests) {
  TokenServer server;
  open_with_user(server.url());
  int answered = 0;
  for (int i = 0; i < 5; ++i)
    store_->transact(one_put(), [&](const Answer& answer) { answered += answer.outcome == Outcome::answered ? 1 : 0; });
  EXPECT_TRUE(await([&] { return answered == 5; }));
  EXPECT_EQ(server.count("/v3/auth/authenticate"), 1);
}

TEST_F(EtcdHttpTest, gets_a_new_token_when_a_server_has_forgotten_it) {
  TokenServer server;
  open_with_user(server.url());
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  server.forget();
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  EXPECT_EQ(server.count("/v3/auth/authenticate"), 2);
}

TEST_F(EtcdHttpTest, gets_a_new_token_only_once_per_request) {
  FakeServer server([](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/auth/authenticate") return connection.answer(200, R"({"token":"t.1"})");
    connection.answer(401, kBadToken);
  });
  open_with_user(server.url());
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::denied);
  EXPECT_EQ(server.count("/v3/kv/txn"), 2);
}

TEST_F(EtcdHttpTest, gets_a_new_token_after_an_empty_answer) {
  TokenServer server("", 200);
  open_with_user(server.url());
  EXPECT_EQ(keep_alive(5).ttl_s, 10);
  server.forget();
  EXPECT_EQ(keep_alive(5).answer.outcome, Outcome::unknown);
  EXPECT_EQ(keep_alive(5).ttl_s, 10);
}

TEST_F(EtcdHttpTest, reads_the_password_file_each_time_and_reports_failures) {
  TokenServer server;
  open_with_user(server.url());
  std::filesystem::remove(directory_ / "password");
  const Answer answer = transact(one_put());
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::denied);
  EXPECT_THAT(answer.sentence, HasSubstr("cannot read password file " + (directory_ / "password") + ": "));
  std::ofstream(directory_ / "password") << "secret";
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
}

TEST_F(EtcdHttpTest, reports_a_password_file_that_everyone_can_read_and_continues) {
  TokenServer server;
  open_with_user(server.url());
  const std::string path = directory_ / "password";
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  EXPECT_TRUE(has_complained("the password file " + path + " is open to all users; run chmod o= " + path));
}

TEST_F(EtcdHttpTest, does_not_send_a_wrong_password_with_each_request) {
  FakeServer server(
      says(400, R"({"error":"etcdserver: authentication failed, invalid user ID or password","code":3})"));
  open_with_user(server.url());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    const Answer answer = transact(one_put());
    EXPECT_EQ(answer.fault, Fault::denied);
    EXPECT_THAT(answer.sentence, HasSubstr("refuses user hf"));
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  EXPECT_LE(server.seen().size(), static_cast<std::size_t>(seconds.count()) + 1);
}

TEST_F(EtcdHttpTest, needs_no_token_until_authentication_is_enabled) {
  std::atomic<bool> enabled{false};
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/auth/authenticate") {
      if (enabled) return connection.answer(200, R"({"token":"t.1"})");
      return connection.answer(412, R"({"error":"etcdserver: authentication is not enabled","code":9})");
    }
    if (enabled && request.headers.count("authorization") == 0)
      return connection.answer(400, R"({"error":"etcdserver: user name is empty","code":3})");
    connection.answer(200, kDone);
  });
  open_with_user(server.url());
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  enabled = true;
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
}

// --- watch ----------------------------------------------------------------------------------------------

TEST_F(EtcdHttpTest, receives_each_event_even_if_lines_arrive_in_parts_or_together) {
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    const std::string all = kBegun + event("eA==", 7) + event("eQ==", 8);
    connection.chunk(all.substr(0, kBegun.size() + 40));
    ::usleep(20000);
    connection.chunk(all.substr(kBegun.size() + 40));
  });
  open(options({server.url()}));
  watch("b");
  ASSERT_TRUE(await([&] { return rung_.size() == 2; }));
  EXPECT_EQ(rung_[0].value, "x");
  EXPECT_EQ(rung_[0].modified, 7);
  EXPECT_EQ(rung_[1].value, "y");
  EXPECT_EQ(server.seen().back().headers.at("grpc-metadata-hasleader"), "true");
}

TEST_F(EtcdHttpTest, restarts_the_watch_however_it_ends) {
  std::atomic<int> times{0};
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    const int time = ++times;
    if (time == 1) return connection.close();
    if (time == 2) return connection.answer(503, "busy");
    if (time == 3) return connection.answer(200, "");
    connection.begin_stream();
    if (time == 4)
      connection.chunk(R"({"result":{)" + kHeader + R"(,"created":true,"canceled":true,"cancel_reason":)" +
                       R"("rpc error: code = Unavailable desc = etcdserver: no leader"}})" + "\n");
    if (time == 5)
      connection.chunk(R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})"
                       "\n");
    if (time == 6) {
      connection.chunk(kBegun + event("eA==", 6).substr(0, 60));
      return connection.close();
    }
    if (time == 7) connection.chunk(kBegun + event("eA==", 7) + "{\n");
    if (time == 8) {
      connection.chunk(kBegun + event("eA==", 8));
      return connection.end_stream();
    }
    if (time == 9) connection.chunk(kBegun + event("eA==", 9));
    connection.stay_silent();
  });
  open(options({server.url()}));
  watch("b");
  ASSERT_TRUE(await([&] { return rung_.size() == 3; }));
  EXPECT_EQ(rung_[0].modified, 7);
  EXPECT_EQ(rung_[1].modified, 8);
  EXPECT_EQ(rung_[2].modified, 9);
  EXPECT_TRUE(has_complained("no leader"));
  EXPECT_TRUE(has_complained("503: busy"));
}

TEST_F(EtcdHttpTest, recreates_the_watch_if_it_does_not_begin) {
  std::atomic<int> times{0};
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    if (++times == 1) return connection.stay_silent();
    connection.begin_stream();
    connection.chunk(kBegun + event("eA==", 7));
    connection.stay_silent();
  });
  open_hasty({server.url()});
  watch("b");
  EXPECT_TRUE(await([&] { return !rung_.empty(); }));
  EXPECT_TRUE(has_complained("did not start the watch within 150 ms"));
  EXPECT_FALSE(has_complained("ended the watch"));
}

TEST_F(EtcdHttpTest, moves_the_watch_when_its_server_stops_answering) {
  FakeServer stuck([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/watch") {
      connection.begin_stream();
      connection.chunk(kBegun + event("eA==", 7));
    }
    connection.stay_silent();
  });
  FakeServer sound([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path != "/v3/watch") return connection.answer(200, kDone);
    connection.begin_stream();
    connection.chunk(kBegun + event("eQ==", 8));
  });
  open_hasty({stuck.url(), sound.url()});
  watch("b");
  ASSERT_TRUE(await([&] { return rung_.size() == 1; }));
  EXPECT_EQ(transact(one_put()).outcome, Outcome::unknown);
  EXPECT_TRUE(await([&] { return rung_.size() == 2; }));
  EXPECT_EQ(rung_.back().value, "y");
}

TEST_F(EtcdHttpTest, receives_no_events_of_a_key_after_its_watch_was_replaced) {
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    connection.begin_stream();
    connection.chunk(kBegun + event(request.body.find("\"YQ==\"") != std::string::npos ? "b2xk" : "bmV3", 7));
    connection.chunk(event("bGF0ZXI=", 8));
  });
  open(options({server.url()}));
  std::vector<std::string> heard;
  const auto on_new = [&](const agent::Record& record) { heard.push_back("new " + record.value); };
  store_->watch("a", [&](const agent::Record& record) {
    heard.push_back("old " + record.value);
    store_->watch("b", on_new);
  });
  ASSERT_TRUE(await([&] { return heard.size() == 3; }));
  EXPECT_THAT(heard, ::testing::ElementsAre("old old", "new new", "new later"));
}

TEST_F(EtcdHttpTest, watches_with_a_new_token_when_the_old_one_is_refused) {
  std::atomic<int> tokens{0};
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/auth/authenticate")
      return connection.answer(200, R"({"token":"t.)" + std::to_string(++tokens) + R"("})");
    connection.begin_stream();
    if (request.headers.at("authorization") == "t.2") return connection.chunk(kBegun + event("eA==", 7));
    connection.chunk(R"({"result":{)" + kHeader +
                     R"(,"watch_id":"-1","created":true,"canceled":true,"cancel_reason":)" +
                     R"("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"}})" + "\n");
  });
  open_with_user(server.url());
  watch("b");
  EXPECT_TRUE(await([&] { return !rung_.empty(); }));
}

TEST_F(EtcdHttpTest, restarts_a_watch_that_ends_immediately_at_growing_intervals) {
  std::atomic<int> times{0};
  const auto cut = [&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path != "/v3/watch") return connection.answer(200, kDone);
    ++times;
    connection.begin_stream();
    connection.chunk(kBegun);
    connection.close();
  };
  FakeServer first(cut);
  FakeServer second(cut);
  open(options({first.url(), second.url()}));
  watch("b");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  // All other requests work, so the endpoints count as healthy.
  while (std::chrono::steady_clock::now() < end) EXPECT_EQ(transact(one_put()).outcome, Outcome::answered);
  EXPECT_GT(times, 1);
  EXPECT_LT(times, 30) << "with intervals of 10 ms, there would be hundreds of attempts";
}

// --- many requests --------------------------------------------------------------------------------------

// This happens when a new agent starts on a machine with thousands of locks.
TEST_F(EtcdHttpTest, keeps_a_lease_alive_during_thousands_of_unanswered_changes) {
  constexpr int kChanges = 2000;
  std::atomic<int> under_way{0};
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/v3/lease/keepalive") return connection.answer(200, kKept);
    ++under_way;
    connection.stay_silent();
  });
  open(options({server.url()}));
  for (int i = 0; i < kChanges; ++i) store_->transact(one_put(), [](const Answer&) {});
  EXPECT_EQ(keep_alive(5).answer.outcome, Outcome::answered);
  EXPECT_TRUE(await([&] { return under_way >= 64; }));
  idle(std::chrono::milliseconds(100));
  EXPECT_EQ(under_way, 64) << "each change in flight must have its own connection";
  store_.reset();
}

// The session depends on the urgent request. While this request waits, the lease runs out.
TEST_F(EtcdHttpTest, sends_urgent_requests_before_thousands_of_queued_requests) {
  constexpr int kChanges = 2000;
  FakeServer server([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.body.find("dXJnZW50") != std::string::npos) return connection.answer(200, kDone);  // "urgent"
    connection.stay_silent();
  });
  open(options({server.url()}));
  for (int i = 0; i < kChanges; ++i) store_->transact(one_put(), [](const Answer&) {});
  Change announce;
  announce.then = {Step::put("urgent", "v", 5)};
  announce.urgent = true;
  EXPECT_EQ(transact(announce).outcome, Outcome::answered);
  store_.reset();
}

TEST_F(EtcdHttpTest, drops_a_queued_request_that_is_no_longer_wanted) {
  constexpr int kChanges = 1000;
  std::atomic<int> answered{0};
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    ++answered;
    connection.answer(200, kDone);
  });
  open(options({server.url()}));
  bool epoch_is_over = false;
  int told = 0;
  for (int i = 0; i < kChanges; ++i) {
    Change change = one_put();
    change.wanted = [&] { return !epoch_is_over; };
    store_->transact(std::move(change), [&](const Answer&) { ++told; });
  }
  epoch_is_over = true;  // only the requests that were sent immediately are in flight
  EXPECT_EQ(transact(one_put()).outcome, Outcome::answered) << "a later request was not sent";
  EXPECT_TRUE(await([&] { return told + 1 == answered; }));
  EXPECT_LE(told, 64);
}

TEST_F(EtcdHttpTest, reports_how_long_a_change_was_queued) {
  constexpr std::int64_t kSlowMs = 50;
  FakeServer server([&](const FakeRequest&, FakeConnection& connection) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kSlowMs));
    connection.answer(200, kDone);
  });
  open(options({server.url()}));
  EXPECT_LT(transact(one_put()).queued_us, kSlowMs * 1000);
  std::int64_t last_us = 0;
  int answers = 0;
  for (int i = 0; i < 100; ++i)
    store_->transact(one_put(), [&, i](const Answer& answer) {
      ++answers;
      if (i == 99) last_us = answer.queued_us;
    });
  EXPECT_TRUE(await([&] { return answers == 100; }));
  EXPECT_GE(last_us, kSlowMs * 1000) << "the last change was queued for less time than an earlier change took";
}

TEST_F(EtcdHttpTest, answers_thousands_of_changes_in_turn) {
  constexpr int kChanges = 1000;
  FakeServer server(says(200, kDone));
  open(options({server.url()}));
  std::vector<int> answered;
  for (int i = 0; i < kChanges; ++i)
    store_->transact(one_put(), [&answered, i](const Answer& answer) {
      if (answer.outcome == Outcome::answered) answered.push_back(i);
    });
  EXPECT_TRUE(await([&] { return answered.size() == kChanges; }));
}

}  // namespace
}  // namespace holdfast::test
