// Tests the store's client with a real etcd, from Debian's package.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "etcd/etcd_server.h"
#include "etcd/fake_server.h"
#include "etcd/store_test.h"

namespace holdfast::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Change put(const std::string& key, const std::string& value = "v", LeaseId lease = 0) {
  return {{}, {Step::put(key, value, lease)}, {}};
}
Change get(const std::string& key) { return {{}, {Step::get(key)}, {}}; }

std::vector<std::string> keys(const std::vector<Record>& records) {
  std::vector<std::string> found;
  found.reserve(records.size());
  for (const Record& record : records) found.push_back(record.key);
  return found;
}

class EtcdRealTest : public StoreTest {
 protected:
  void serve(std::vector<std::string> server_options = {}, const Certificates* certificates = nullptr) {
    server_ = std::make_unique<EtcdServer>(std::move(server_options), certificates);
  }
  void open_plainly() { open(options({server_->url()})); }
  void begin() {
    serve();
    open_plainly();
  }
  void open_with_user(const std::string& password = "secret", etcd::Tls tls = {}) {
    std::ofstream(directory_ / "password") << password << "\n";
    auto with_user = options({server_->url()});
    with_user.credentials = {"hf", directory_ / "password"};
    with_user.tls = std::move(tls);
    open(std::move(with_user));
  }
  Answer sound(const Change& change) {
    Answer answer = transact(change);
    EXPECT_EQ(answer.outcome, Outcome::answered) << answer.sentence;
    return answer;
  }
  /// Repeats the change until its answer meets the condition.
  Answer until(const Change& change, const std::function<bool(const Answer&)>& condition) {
    Answer answer;
    EXPECT_TRUE(await([&] { return condition(answer = transact(change)); })) << answer.sentence;
    return answer;
  }
  /// Repeats a change until it is answered. The engine, too, repeats changes that may be executed twice.
  Answer until_answered(const Change& change) {
    return until(change, [](const Answer& answer) { return answer.outcome == Outcome::answered; });
  }
  agent::LeaseAnswer until_answered(const std::function<agent::LeaseAnswer()>& call) {
    agent::LeaseAnswer lease;
    EXPECT_TRUE(await([&] { return (lease = call()).answer.outcome == Outcome::answered; })) << lease.answer.sentence;
    return lease;
  }
  LeaseId lease(std::int64_t ttl_s = 60) {
    const auto granted = grant(ttl_s);
    EXPECT_EQ(granted.answer.outcome, Outcome::answered) << granted.answer.sentence;
    return granted.lease;
  }
  /// Puts the key again and again until the watch reports it, because a watch that is still being created may miss
  /// events.
  bool rings(const std::string& key) {
    const std::size_t before = rung_.size();
    return await([&] {
      until_answered(put(key));
      idle(std::chrono::milliseconds(20));
      return rung_.size() > before;
    });
  }

  ScratchDirectory directory_;
  std::unique_ptr<EtcdServer> server_;
};

// --- transactions ---------------------------------------------------------------------------------------

TEST_F(EtcdRealTest, executes_exactly_one_of_two_lists_of_steps_atomically) {
  begin();
  const Change ask{{Guard::absent("l"), Guard::none_below("q/")},
                   {Step::put("l", "me", 0)},
                   {Step::put("q/me", "", 0), Step::get("l")}};
  const Answer first = sound(ask);
  EXPECT_TRUE(first.guarded);
  EXPECT_TRUE(first.found.empty());
  const Answer second = sound(ask);
  EXPECT_FALSE(second.guarded);
  EXPECT_EQ(second.revision, first.revision + 1);
  ASSERT_EQ(second.found.size(), 1u);
  ASSERT_EQ(second.found[0].size(), 1u);
  const Record& held = second.found[0][0];
  EXPECT_EQ(held.key, "l");
  EXPECT_EQ(held.value, "me");
  EXPECT_EQ(held.created, first.revision);
  EXPECT_EQ(held.modified, first.revision);
  EXPECT_EQ(held.lease, 0);
}

TEST_F(EtcdRealTest, guards_a_whole_prefix) {
  begin();
  const Change lone{{Guard::none_below("q/")}, {}, {}};
  EXPECT_TRUE(sound(lone).guarded);
  sound(put("q"));
  sound(put("q0"));
  EXPECT_TRUE(sound(lone).guarded) << "no key begins with q/";
  const Revision made = sound(put("q/a")).revision;
  EXPECT_FALSE(sound(lone).guarded);
  EXPECT_TRUE(sound({{{Guard::Of::created, "q/", made, true}}, {}, {}}).guarded);
  const Revision later = sound(put("q/b")).revision;
  EXPECT_FALSE(sound({{{Guard::Of::created, "q/", made, true}}, {}, {}}).guarded);
  EXPECT_FALSE(sound({{{Guard::Of::created, "q/", later, true}}, {}, {}}).guarded);
  sound({{}, {Step::erase("q/a"), Step::erase("q/b")}, {}});
  EXPECT_TRUE(sound(lone).guarded);
}

TEST_F(EtcdRealTest, reads_the_oldest_keys_of_a_prefix_and_the_effects_of_earlier_steps) {
  begin();
  for (const char* key : {"q/c", "q/a", "q/b", "r"}) sound(put(key));
  sound(put("q/c", "again"));
  const Answer answer = sound(
      {{},
       {Step::put("q/d", "", 0), Step::oldest("q/", 0), Step::oldest("q/", 2), Step::oldest("x/", 2), Step::get("q/d")},
       {}});
  ASSERT_EQ(answer.found.size(), 4u);
  EXPECT_THAT(keys(answer.found[0]), ElementsAre("q/c", "q/a", "q/b", "q/d"));
  EXPECT_THAT(keys(answer.found[1]), ElementsAre("q/c", "q/a"));
  EXPECT_TRUE(answer.found[2].empty());
  ASSERT_THAT(keys(answer.found[3]), ElementsAre("q/d"));
  EXPECT_EQ(answer.found[3][0].modified, answer.revision);
}

TEST_F(EtcdRealTest, executes_a_repeated_guarded_change_once) {
  begin();
  const Revision held = sound(put("l", "me")).revision;
  const Change release{{Guard::unchanged("l", held)}, {Step::erase("l")}, {Step::get("l")}};
  EXPECT_TRUE(sound(release).guarded);
  sound(put("l", "other"));
  const Answer again = sound(release);
  EXPECT_FALSE(again.guarded);
  EXPECT_THAT(keys(again.found.at(0)), ElementsAre("l"));
}

TEST_F(EtcdRealTest, keeps_any_bytes_in_keys_and_values) {
  begin();
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  sound(put(bytes, bytes));
  const Answer answer = sound(get(bytes));
  ASSERT_THAT(keys(answer.found.at(0)), ElementsAre(bytes));
  EXPECT_EQ(answer.found[0][0].value, bytes);
}

TEST_F(EtcdRealTest, accepts_a_key_of_10_kb_and_refuses_a_request_that_is_too_large) {
  begin();
  sound(put(std::string(10240, 'k')));
  const Answer answer = transact(put("k", std::string(2000000, 'v')));
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::too_large) << answer.sentence;
}

TEST_F(EtcdRealTest, is_not_disturbed_by_compaction) {
  begin();
  watch("b");
  EXPECT_TRUE(rings("b"));
  const Revision revision = sound(put("l")).revision;
  const std::string answer =
      server_->post("/v3/kv/compaction", R"({"revision":")" + std::to_string(revision) + R"(","physical":true})");
  EXPECT_THAT(answer, HasSubstr("header"));
  EXPECT_TRUE(sound({{Guard::unchanged("l", revision)}, {Step::put("l", "2", 0)}, {}}).guarded);
  EXPECT_TRUE(rings("b"));
}

TEST_F(EtcdRealTest, reports_the_version_of_each_endpoint) {
  serve();
  const std::string nobody = "http://127.0.0.1:" + std::to_string(free_port());
  open(options({server_->url(), nobody}));
  std::vector<etcd::EndpointVersion> members;
  store_->versions([&](const std::vector<etcd::EndpointVersion>& said) { members = said; });
  ASSERT_TRUE(await([&] { return !members.empty(); }));
  ASSERT_EQ(members.size(), 2U);
  ASSERT_TRUE(members[0].version) << members[0].trouble;
  EXPECT_GE(members[0].version->major, 3);
  EXPECT_EQ(members[0].version->text.substr(0, 2), "3.");
  EXPECT_EQ(members[0].url, server_->url());
  EXPECT_THAT(members[0].cluster, ::testing::MatchesRegex("[0-9]+"));
  EXPECT_FALSE(members[1].version);
  EXPECT_THAT(members[1].trouble, HasSubstr(nobody + " does not answer: "));
}

// --- leases ---------------------------------------------------------------------------------------------

TEST_F(EtcdRealTest, attaches_keys_to_a_lease_and_removes_them_with_it) {
  begin();
  const LeaseId mine = lease();
  sound({{}, {Step::put("l", "", mine), Step::put("b", "", mine)}, {}});
  const auto found = keys_of(mine);
  EXPECT_EQ(found.answer.outcome, Outcome::answered);
  EXPECT_GT(found.ttl_s, 0);
  EXPECT_THAT(found.keys, UnorderedElementsAre("l", "b"));
  EXPECT_EQ(keep_alive(mine).ttl_s, 60);
  EXPECT_EQ(sound(get("l")).found.at(0).at(0).lease, mine);
  EXPECT_EQ(revoke(mine).outcome, Outcome::answered);
  EXPECT_TRUE(sound(get("l")).found.at(0).empty());
}

TEST_F(EtcdRealTest, distinguishes_an_ended_lease_from_a_live_one) {
  begin();
  const LeaseId mine = lease();
  revoke(mine);
  EXPECT_EQ(keep_alive(mine).answer.outcome, Outcome::answered);
  EXPECT_EQ(keep_alive(mine).ttl_s, 0);
  EXPECT_EQ(keys_of(mine).ttl_s, 0);
  EXPECT_EQ(revoke(mine).fault, Fault::no_lease);
  const Answer answer = transact({{}, {Step::put("a", "", 0), Step::put("l", "", mine)}, {}});
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::no_lease);
  EXPECT_TRUE(sound(get("a")).found.at(0).empty()) << "a refused change must have no effect";
}

TEST_F(EtcdRealTest, ends_a_lease_that_nobody_renews) {
  begin();
  watch("b");
  const LeaseId mine = lease(2);
  sound(put("b", "", mine));
  EXPECT_TRUE(await([&] { return !rung_.empty() && rung_.back().modified == 0; }))
      << "the notification key was not deleted";
  EXPECT_EQ(keep_alive(mine).ttl_s, 0);
}

TEST_F(EtcdRealTest, lists_ten_thousand_keys_of_a_lease) {
  begin();
  const LeaseId mine = lease();
  for (int part = 0; part < 100; ++part) {
    Change change;
    for (int i = 0; i < 100; ++i) change.then.push_back(Step::put("l/" + std::to_string(100 * part + i), "", mine));
    sound(change);
  }
  EXPECT_EQ(keys_of(mine).keys.size(), 10000u);
  EXPECT_EQ(revoke(mine).outcome, Outcome::answered);
  EXPECT_TRUE(sound({{Guard::none_below("l/")}, {}, {}}).guarded);
}

// --- watch ----------------------------------------------------------------------------------------------

TEST_F(EtcdRealTest, notifies_on_each_put_of_the_key_and_on_its_end) {
  begin();
  watch("b");
  ASSERT_TRUE(rings("b"));
  idle(std::chrono::milliseconds(100));
  rung_.clear();
  const Revision first = sound(put("b", "1")).revision;
  sound(put("b/", "another key"));
  const Revision second = sound(put("b", "2")).revision;
  sound({{}, {Step::erase("b")}, {}});
  ASSERT_TRUE(await([&] { return rung_.size() >= 3; }));
  EXPECT_EQ(rung_[0].value, "1");
  EXPECT_EQ(rung_[0].modified, first);
  EXPECT_EQ(rung_[1].value, "2");
  EXPECT_EQ(rung_[1].modified, second);
  EXPECT_EQ(rung_[2].key, "b");
  EXPECT_EQ(rung_[2].modified, 0);
  EXPECT_EQ(rung_.size(), 3u);
}

TEST_F(EtcdRealTest, notifies_again_after_a_restart_of_the_server) {
  begin();
  const LeaseId mine = lease();
  watch("b");
  ASSERT_TRUE(rings("b"));
  const Revision held = sound(put("l", "", mine)).revision;
  server_->kill();
  const Answer away = transact(get("l"));
  EXPECT_EQ(away.outcome, Outcome::unknown);
  EXPECT_THAT(away.sentence, HasSubstr("etcd at " + server_->url() + " does not answer: "));
  server_->start();
  EXPECT_EQ(until_answered(get("l")).found.at(0).at(0).modified, held);
  EXPECT_THAT(keys_of(mine).keys, ElementsAre("l"));
  EXPECT_TRUE(rings("b"));
}

TEST_F(EtcdRealTest, does_not_know_the_result_of_a_stopped_server_until_it_resumes) {
  serve();
  auto hasty = options({server_->url()});
  hasty.timeout_ms = 300;
  open(std::move(hasty));
  const Revision before = until_answered(put("l")).revision;
  server_->stop();
  const Change change{{Guard::unchanged("l", before)}, {Step::put("l", "2", 0)}, {Step::get("l")}};
  EXPECT_EQ(transact(change).outcome, Outcome::unknown);
  server_->go_on();
  const Answer answer = until_answered(change);
  if (!answer.guarded) {  // if so, the unanswered change was executed, but only once
    EXPECT_EQ(answer.found.at(0).at(0).value, "2");
    EXPECT_EQ(answer.found[0][0].modified, before + 1);
  }
}

// --- users, certificates, a full database --------------------------------------------------------------------------

TEST_F(EtcdRealTest, needs_the_users_password_if_authentication_is_enabled) {
  serve();
  server_->enable_authentication();
  open_plainly();
  const Answer nobody = transact(put("hf/l"));
  EXPECT_EQ(nobody.outcome, Outcome::refused);
  EXPECT_EQ(nobody.fault, Fault::denied);
  EXPECT_THAT(nobody.sentence, HasSubstr("requires a user and a password"));

  open_with_user("guess");
  const Answer wrong = transact(put("hf/l"));
  EXPECT_EQ(wrong.fault, Fault::denied);
  EXPECT_THAT(wrong.sentence, HasSubstr("refuses user hf: etcdserver: authentication failed"));

  open_with_user();
  const LeaseId mine = lease();
  sound(put("hf/l", "", mine));
  EXPECT_EQ(keep_alive(mine).ttl_s, 60);
  EXPECT_THAT(keys_of(mine).keys, ElementsAre("hf/l"));
  const Answer elsewhere = transact(put("other"));
  EXPECT_EQ(elsewhere.outcome, Outcome::refused);
  EXPECT_EQ(elsewhere.fault, Fault::denied);
  watch("hf/b");
  EXPECT_TRUE(rings("hf/b"));
}

TEST_F(EtcdRealTest, gets_a_new_token_when_the_server_has_lost_the_old_one) {
  serve();
  server_->enable_authentication();
  open_with_user();
  const LeaseId mine = lease();
  watch("hf/b");
  ASSERT_TRUE(rings("hf/b"));
  server_->kill();
  server_->start();
  until_answered(get("hf/b"));
  EXPECT_EQ(keep_alive(mine).ttl_s, 60);
  EXPECT_TRUE(rings("hf/b"));
}

TEST_F(EtcdRealTest, reports_that_its_rights_were_revoked_and_continues_when_they_return) {
  serve();
  server_->enable_authentication();
  open_with_user();
  sound(put("hf/l"));
  server_->be("root", "top");
  EXPECT_THAT(server_->post("/v3/auth/user/revoke", R"({"name":"hf","role":"hf"})"), HasSubstr("header"));
  const Answer answer = transact(put("hf/l"));
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::denied);
  watch("hf/b");
  EXPECT_TRUE(await([&] { return has_complained("permission denied; the agent restarts it"); }))
      << "etcd refuses a watch in an answer with status 200";
  EXPECT_THAT(server_->post("/v3/auth/user/grant", R"({"user":"hf","role":"hf"})"), HasSubstr("header"));
  EXPECT_TRUE(rings("hf/b"));
}

TEST_F(EtcdRealTest, continues_when_authentication_is_enabled_while_it_runs) {
  serve();
  open_with_user();
  sound(put("hf/l"));
  server_->enable_authentication();
  sound(put("hf/l"));
}

TEST_F(EtcdRealTest, uses_tls_and_verifies_its_server) {
  Certificates certificates;
  certificates.make("server", "/O=etcd");
  serve({}, &certificates);
  auto trusting = options({server_->url()});
  trusting.tls = certificates.tls();
  open(std::move(trusting));
  sound(put("l"));
  watch("b");
  EXPECT_TRUE(rings("b"));

  open_plainly();
  const Answer unknown_authority = transact(put("l"));
  EXPECT_EQ(unknown_authority.outcome, Outcome::unknown);
  EXPECT_THAT(unknown_authority.sentence, HasSubstr("certificate"));

  open(options({"http" + server_->url().substr(5)}));
  const Answer without_tls = transact(put("l"));
  EXPECT_NE(without_tls.outcome, Outcome::answered);
  EXPECT_THAT(without_tls.sentence, HasSubstr("https://"));
}

TEST_F(EtcdRealTest, presents_a_certificate_and_reports_a_refused_certificate) {
  Certificates certificates;
  certificates.make("server", "/O=etcd");
  certificates.make("agent", "/O=agent");
  certificates.make("late", "/O=agent", -1);
  certificates.make("root", "/CN=root");
  serve({"--client-cert-auth", "--trusted-ca-file=" + certificates.path("ca.pem")}, &certificates);
  const auto open_as = [&](const std::string& name) {
    auto shown = options({server_->url()});
    shown.tls = certificates.tls(name);
    open(std::move(shown));
  };
  open_as("agent");
  sound(put("l"));
  open_as("root");
  sound(put("l"));
  for (const char* name : {"", "late"}) {
    open_as(name);
    // The server may close the connection while the request is being sent. Then its reason may be lost.
    Answer answer;
    for (int attempt = 0; attempt < 20 && answer.sentence.find("certificate") == std::string::npos; ++attempt) {
      answer = transact(put("l"));
      EXPECT_EQ(answer.outcome, Outcome::unknown) << name;
    }
    EXPECT_THAT(answer.sentence, HasSubstr("certificate")) << name;
  }

  server_->enable_authentication();
  open_with_user("secret", certificates.tls("agent"));
  sound(put("hf/l"));
  open_with_user("secret", certificates.tls("root"));
  const Answer named = transact(put("hf/l"));
  EXPECT_EQ(named.outcome, Outcome::refused);
  EXPECT_EQ(named.fault, Fault::denied);
  EXPECT_THAT(named.sentence, HasSubstr("use a certificate without CN"));
}

TEST_F(EtcdRealTest, reports_that_the_database_is_full_but_can_still_delete) {
  serve({"--quota-backend-bytes=200000"});
  open_plainly();
  const LeaseId mine = lease();
  Answer answer;
  for (int i = 0; i < 200; ++i) {
    answer = transact(put("k" + std::to_string(i), std::string(20000, 'v')));
    if (answer.outcome != Outcome::answered) break;
  }
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_EQ(answer.fault, Fault::no_space) << answer.sentence;
  EXPECT_THAT(answer.sentence, HasSubstr("database space exceeded"));
  EXPECT_TRUE(sound({{}, {Step::erase("k0"), Step::get("k0")}, {}}).found.at(0).empty());
  EXPECT_EQ(keep_alive(mine).ttl_s, 60);
  EXPECT_EQ(grant(60).answer.fault, Fault::no_space);
}

TEST_F(EtcdRealTest, reports_that_a_server_started_with_a_file_has_no_gateway) {
  const int port = free_port();
  const std::string url = "http://127.0.0.1:" + std::to_string(port);
  const std::string peer = "http://127.0.0.1:" + std::to_string(free_port());
  std::ofstream(directory_ / "etcd.yaml")
      << "data-dir: " << (directory_ / "data") << "\nlisten-client-urls: " << url << "\nadvertise-client-urls: " << url
      << "\nlisten-peer-urls: " << peer << "\ninitial-advertise-peer-urls: " << peer
      << "\ninitial-cluster: default=" << peer << "\n";
  const Child server([&](Channel&) {
    if (std::freopen((directory_ / "log").c_str(), "w", stderr) == nullptr) return 1;
    const std::string file = "--config-file=" + (directory_ / "etcd.yaml");
    ::execlp("etcd", "etcd", file.c_str(), nullptr);
    return 127;
  });
  open(options({url}));
  const Answer answer = until(put("l"), [](const Answer& said) { return said.outcome != Outcome::unknown; });
  if (answer.outcome == Outcome::answered) GTEST_SKIP() << "this etcd is 3.5 or later, and has its gateway enabled";
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_THAT(answer.sentence, HasSubstr("etcd at " + url + " has no JSON gateway (404)"));
}

// --- three members --------------------------------------------------------------------------------------

TEST_F(EtcdRealTest, continues_with_two_of_three_members) {
  EtcdCluster cluster;
  open(options(cluster.urls()));
  const LeaseId mine = until_answered([&] { return grant(60); }).lease;
  watch("b");
  ASSERT_TRUE(rings("b"));
  for (std::size_t member = 0; member < 3; ++member) {  // stops each member in turn, including the leader
    cluster[member].kill();
    until_answered(put("l", std::to_string(member), mine));
    EXPECT_TRUE(rings("b"));
    cluster[member].start();
  }
  EXPECT_THAT(until_answered([&] { return keys_of(mine); }).keys, ElementsAre("l"));
}

TEST_F(EtcdRealTest, reports_that_one_member_of_three_has_no_leader_and_ends_the_watch) {
  EtcdCluster cluster;
  open(options({cluster[0].url()}));
  watch("b");
  ASSERT_TRUE(rings("b"));
  complaints_.clear();
  cluster[1].kill();
  cluster[2].kill();
  const Answer answer = until(put("l"), [](const Answer& said) { return said.fault == Fault::no_leader; });
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_THAT(answer.sentence, HasSubstr("no leader"));
  EXPECT_TRUE(await([&] { return has_complained("no leader; the agent restarts it"); }));
  cluster[1].begin();
  cluster[2].begin();
  EXPECT_TRUE(rings("b"));
}

}  // namespace
}  // namespace holdfast::test
