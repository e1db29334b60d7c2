// Tests what agents and programs lose, keep and log when the store fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "etcd/etcd_server.h"
#include "etcd/json.h"
#include "etcd/proxy.h"
#include "service/machine.h"

namespace holdfast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string quoted(const std::string& text) { return "\"" + text + "\""; }
std::string base64(const std::string& text) { return quoted(etcd::to_base64(text)); }

TEST(StoreDays, a_store_absent_for_longer_than_the_lease_costs_only_the_locks) {
  EtcdServer etcd;
  Peer a(etcd.url(), kShort);
  Peer b(etcd.url(), kShort);
  const std::uint64_t token = a.hold("k");
  etcd.kill();
  EXPECT_THAT(a.ask("lose k"), StartsWith("lost "));
  EXPECT_EQ(a.ask("unlock k"), "not owner");
  EXPECT_EQ(b.lock("k", 0.5), 0U);
  b.say("lock k 50");
  etcd.start();
  const std::string got = b.hear();
  ASSERT_THAT(got, StartsWith("ok "));
  EXPECT_GT(std::stoull(got.substr(3)), token);
  EXPECT_EQ(b.ask("unlock k"), "ok");
  EXPECT_NE(a.lock("k"), 0U);
}

TEST(StoreDays, a_store_restored_to_an_earlier_state_costs_the_locks_and_is_reported) {
  EtcdServer etcd;
  Peer a(etcd.url(), kLong);
  a.hold("earlier");
  etcd.kill();
  etcd.save();
  etcd.start();
  ASSERT_EQ(a.ask("take 30"), "30");
  a.hold("k");
  etcd.kill();
  etcd.restore();
  etcd.start();
  EXPECT_THAT(a.ask("lose k"), StartsWith("lost "));
  EXPECT_EQ(a.ask("valid earlier"), "not owner");
  EXPECT_TRUE(eventually([&] { return a.has_said("the store's revision went back from "); })) << a.said();
  EXPECT_NE(a.lock("another"), 0U);
}

/// Fills the store until etcd raises its alarm.
bool fill_up(EtcdServer& etcd) {
  const std::string value = base64(std::string(20'000, 'v'));
  for (int i = 0; i < 500; ++i) {
    const std::string put = R"({"key":)" + base64("fill " + std::to_string(i)) + R"(,"value":)" + value + "}";
    if (etcd.post("/v3/kv/put", put).find("database space exceeded") != std::string::npos) return true;
  }
  return false;
}

/// Returns the number in this field of an answer.
std::string number_in(const std::string& answer, const std::string& field) {
  const std::string name = quoted(field) + ":\"";
  const std::size_t at = answer.find(name) + name.size();
  return answer.substr(at, answer.find('"', at) - at);
}

void make_room(EtcdServer& etcd) {
  const std::string all = R"({"key":)" + base64("fill ") + R"(,"range_end":)" + base64("fill!") + "}";
  const std::string answer = etcd.post("/v3/kv/deleterange", all);
  etcd.post("/v3/kv/compaction", R"({"physical":true,"revision":)" + quoted(number_in(answer, "revision")) + "}");
  etcd.post("/v3/maintenance/defragment", "{}");
  EXPECT_THAT(etcd.post("/v3/maintenance/alarm", R"({"action":"DEACTIVATE","alarm":"NOSPACE","memberID":)" +
                                                     quoted(number_in(answer, "member_id")) + "}"),
              HasSubstr("NOSPACE"));
}

TEST(StoreDays, a_full_disk_leaves_locks_with_their_holders_until_there_is_room) {
  EtcdServer etcd(std::vector<std::string>{"--quota-backend-bytes=400000"});
  Peer a(etcd.url(), 12);  // a short lease, which is soon renewed
  Peer b(etcd.url(), kLong);
  a.hold("k");
  b.say("lock k 50");
  ASSERT_TRUE(is_queued(etcd, "k"));
  ASSERT_TRUE(fill_up(etcd));
  EXPECT_EQ(a.ask("renew k"), "ok");
  EXPECT_EQ(a.ask("block other 1"), "unavailable");
  EXPECT_EQ(a.ask("block k 0.2"), "locked");  // a local process has the lock
  EXPECT_EQ(a.ask("unlock k"), "ok");
  EXPECT_TRUE(eventually([&] { return a.has_said("database space exceeded"); })) << a.said();
  EXPECT_THAT(a.ask("state"), HasSubstr("its database is full"));
  make_room(etcd);
  EXPECT_TRUE(eventually([&] { return a.ask("state") == "ok"; }));
  EXPECT_THAT(b.hear(), StartsWith("ok "));
  EXPECT_NE(a.lock("other"), 0U);
}

TEST(StoreDays, compaction_removes_nothing_that_is_needed) {
  EtcdServer etcd;
  Peer a(etcd.url(), kLong);
  Peer b(etcd.url(), kLong);
  a.hold("k");
  for (int round = 0; round < 3; ++round) {
    Peer& holder = round % 2 == 0 ? a : b;
    Peer& waiter = round % 2 == 0 ? b : a;
    waiter.say("lock k 50");
    ASSERT_TRUE(is_queued(etcd, "k"));
    const std::string revision = std::to_string(etcd.revision());
    EXPECT_THAT(etcd.post("/v3/kv/compaction", R"({"physical":true,"revision":)" + quoted(revision) + "}"),
                HasSubstr("header"));
    EXPECT_EQ(holder.ask("unlock k"), "ok");
    EXPECT_THAT(waiter.hear(), StartsWith("ok "));
  }
}

TEST(StoreDays, revoked_rights_free_no_lock_and_work_continues_when_the_rights_return) {
  EtcdServer etcd;
  etcd.enable_authentication();
  const ScratchDirectory files;
  std::ofstream(files / "password") << "secret\n";
  std::filesystem::permissions(files / "password", std::filesystem::perms::owner_read);
  const Fields user{{"user", quoted("hf")}, {"password_file", quoted(files / "password")}};
  Peer a(etcd.url(), kLong, user);
  Peer b(etcd.url(), kLong, user);
  a.hold("k");
  etcd.be("root", "top");
  b.say("lock k 50");
  ASSERT_TRUE(is_queued(etcd, "k"));
  EXPECT_THAT(etcd.post("/v3/auth/user/revoke", R"({"name":"hf","role":"hf"})"), HasSubstr("header"));
  EXPECT_EQ(a.lock("other", 0.5), 0U);
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_EQ(a.ask("unlock k"), "ok");
  EXPECT_TRUE(eventually([&] { return a.has_said("permission denied"); })) << a.said();
  EXPECT_THAT(etcd.post("/v3/auth/user/grant", R"({"user":"hf","role":"hf"})"), HasSubstr("header"));
  EXPECT_THAT(b.hear(), StartsWith("ok "));
  EXPECT_EQ(b.ask("unlock k"), "ok");
  EXPECT_NE(a.lock("k"), 0U);
}

/// A server whose certificate changes while it runs. For each connection, etcd reads the files again.
class CertificateDays : public ::testing::Test {
 protected:
  CertificateDays() {
    certificates_.make("good", "/O=etcd");
    certificates_.make("expired", "/O=etcd", -1);
    use("good");
    etcd_ = std::make_unique<EtcdServer>(std::vector<std::string>{}, &certificates_);
    proxy_ = std::make_unique<Proxy>(etcd_->port());
  }
  /// Makes etcd use this certificate for later connections.
  void use(const std::string& name) {
    for (const char* part : {".pem", ".key"})
      std::filesystem::copy_file(certificates_.path(name + part), certificates_.path(std::string("server") + part),
                                 std::filesystem::copy_options::overwrite_existing);
    if (proxy_ != nullptr) proxy_->reset();
  }
  std::unique_ptr<Peer> new_peer(int ttl_s) {
    const Fields authority{{"ca", quoted(certificates_.path("ca.pem"))}};
    return std::make_unique<Peer>("https://127.0.0.1:" + std::to_string(proxy_->port()), ttl_s, authority);
  }

  Certificates certificates_;
  std::unique_ptr<EtcdServer> etcd_;
  std::unique_ptr<Proxy> proxy_;
};

TEST_F(CertificateDays, a_certificate_renewed_in_time_costs_nothing) {
  const auto peer = new_peer(kLong);
  peer->hold("k");
  certificates_.make("next", "/O=etcd");
  use("next");
  EXPECT_TRUE(eventually([&] { return peer->ask("verify k").starts_with("code=yes"); })) << peer->said();
  EXPECT_EQ(peer->ask("valid k"), "ok");
  EXPECT_EQ(peer->ask("unlock k"), "ok");
}

TEST_F(CertificateDays, an_expired_certificate_is_reported_and_locks_return_with_the_next) {
  const auto peer = new_peer(kShort);
  const std::uint64_t token = peer->hold("k");
  use("expired");
  EXPECT_THAT(peer->ask("lose k"), StartsWith("lost "));
  EXPECT_TRUE(eventually([&] { return peer->has_said("certificate has expired"); })) << peer->said();
  EXPECT_EQ(peer->lock("k", 0.3), 0U);
  use("good");
  EXPECT_GT(peer->lock("k"), token);
}

}  // namespace
}  // namespace holdfast::test
