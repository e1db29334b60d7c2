// Bad days of the store, with agents and programs beside it: what they lose, what they keep, and what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "etcd/base64.h"
#include "etcd/etcd_server.h"
#include "etcd/proxy.h"
#include "service/machine.h"

namespace holdfast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kShort = 2;  // a lease that is to end (s)
constexpr int kLong = 30;  // and one that is not

std::string quoted(const std::string& text) { return "\"" + text + "\""; }
std::string base64(const std::string& text) { return quoted(etcd::to_base64(text)); }

TEST(StoreDays, away_for_longer_than_the_lease_costs_the_locks_and_nothing_else) {
  EtcdServer etcd;
  Machine a(etcd.url(), kShort);
  Machine b(etcd.url(), kShort);
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  const std::uint64_t token = first->lock("k");
  ASSERT_NE(token, 0U);
  etcd.kill();
  EXPECT_THAT(first->ask("lose k"), StartsWith("lost "));
  EXPECT_EQ(first->ask("unlock k"), "not owner");
  EXPECT_EQ(second->lock("k", 0.5), 0U);
  second->say("lock k 50");
  etcd.start();
  const std::string got = second->hear();
  ASSERT_THAT(got, StartsWith("ok "));
  EXPECT_GT(std::stoull(got.substr(3)), token);
  EXPECT_EQ(second->ask("unlock k"), "ok");
  EXPECT_NE(first->lock("k"), 0U);
}

TEST(StoreDays, put_back_to_an_earlier_state_costs_the_locks_and_is_told) {
  EtcdServer etcd;
  Machine a(etcd.url(), kLong);
  a.start_agent();
  const auto program = a.program();
  ASSERT_NE(program->lock("earlier"), 0U);
  etcd.kill();
  etcd.save();
  etcd.start();
  ASSERT_EQ(program->ask("take 30"), "30");
  ASSERT_NE(program->lock("k"), 0U);
  etcd.kill();
  etcd.restore();
  etcd.start();
  EXPECT_THAT(program->ask("lose k"), StartsWith("lost "));
  EXPECT_EQ(program->ask("valid earlier"), "not owner");
  EXPECT_TRUE(eventually([&] { return a.has_said("the store has gone back from revision "); })) << a.said();
  EXPECT_NE(program->lock("another"), 0U);
}

/// Until etcd raises its alarm.
bool fill_up(EtcdServer& etcd) {
  const std::string value = base64(std::string(20'000, 'v'));
  for (int i = 0; i < 500; ++i) {
    const std::string put = R"({"key":)" + base64("fill " + std::to_string(i)) + R"(,"value":)" + value + "}";
    if (etcd.post("/v3/kv/put", put).find("database space exceeded") != std::string::npos) return true;
  }
  return false;
}

/// The number that an answer has in the field.
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

TEST(StoreDays, a_full_disk_leaves_locks_with_their_holders_and_others_get_them_when_there_is_room) {
  EtcdServer etcd(std::vector<std::string>{"--quota-backend-bytes=400000"});
  Machine a(etcd.url(), kLong);
  Machine b(etcd.url(), kLong);
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  ASSERT_NE(first->lock("k"), 0U);
  second->say("lock k 50");
  ASSERT_TRUE(is_queued(etcd, "k"));
  ASSERT_TRUE(fill_up(etcd));
  EXPECT_EQ(first->ask("renew k"), "ok");
  EXPECT_EQ(first->ask("block other 1"), "unavailable");
  EXPECT_EQ(first->ask("block k 0.2"), "locked");  // a process of this machine has it
  EXPECT_EQ(first->ask("unlock k"), "ok");
  EXPECT_TRUE(eventually([&] { return a.has_said("database space exceeded"); })) << a.said();
  EXPECT_THAT(first->ask("state"), HasSubstr("its database is full"));
  make_room(etcd);
  EXPECT_TRUE(eventually([&] { return first->ask("state") == "ok"; }));
  EXPECT_THAT(second->hear(), StartsWith("ok "));
  EXPECT_NE(first->lock("other"), 0U);
}

TEST(StoreDays, compaction_forgets_nothing_that_is_needed) {
  EtcdServer etcd;
  Machine a(etcd.url(), kLong);
  Machine b(etcd.url(), kLong);
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  ASSERT_NE(first->lock("k"), 0U);
  for (int round = 0; round < 3; ++round) {
    Program& holder = round % 2 == 0 ? *first : *second;
    Program& waiter = round % 2 == 0 ? *second : *first;
    waiter.say("lock k 50");
    ASSERT_TRUE(is_queued(etcd, "k"));
    const std::string revision = std::to_string(etcd.revision());
    EXPECT_THAT(etcd.post("/v3/kv/compaction", R"({"physical":true,"revision":)" + quoted(revision) + "}"),
                HasSubstr("header"));
    EXPECT_EQ(holder.ask("unlock k"), "ok");
    EXPECT_THAT(waiter.hear(), StartsWith("ok "));
  }
}

TEST(StoreDays, rights_that_are_taken_away_free_no_lock_and_when_they_are_back_it_goes_on) {
  EtcdServer etcd;
  etcd.enable_authentication();
  const ScratchDirectory files;
  std::ofstream(files / "password") << "secret\n";
  std::filesystem::permissions(files / "password", std::filesystem::perms::owner_read);
  const Fields user{{"user", quoted("hf")}, {"password_file", quoted(files / "password")}};
  Machine a(etcd.url(), kLong, user);
  Machine b(etcd.url(), kLong, user);
  a.start_agent();
  b.start_agent();
  const auto first = a.program();
  const auto second = b.program();
  ASSERT_NE(first->lock("k"), 0U) << a.said();
  etcd.be("root", "top");
  second->say("lock k 50");
  ASSERT_TRUE(is_queued(etcd, "k"));
  EXPECT_THAT(etcd.post("/v3/auth/user/revoke", R"({"name":"hf","role":"hf"})"), HasSubstr("header"));
  EXPECT_EQ(first->lock("other", 0.5), 0U);
  EXPECT_EQ(first->ask("valid k"), "ok");
  EXPECT_EQ(first->ask("unlock k"), "ok");
  EXPECT_TRUE(eventually([&] { return a.has_said("permission denied"); })) << a.said();
  EXPECT_THAT(etcd.post("/v3/auth/user/grant", R"({"user":"hf","role":"hf"})"), HasSubstr("header"));
  EXPECT_THAT(second->hear(), StartsWith("ok "));
  EXPECT_EQ(second->ask("unlock k"), "ok");
  EXPECT_NE(first->lock("k"), 0U);
}

/// An etcd; its certificate is changed while it runs: it reads the files anew for each connection.
class CertificateDays : public ::testing::Test {
 protected:
  CertificateDays() {
    certificates_.make("good", "/O=etcd");
    certificates_.make("expired", "/O=etcd", -1);
    use("good");
    etcd_ = std::make_unique<EtcdServer>(std::vector<std::string>{}, &certificates_);
    proxy_ = std::make_unique<Proxy>(etcd_->port());
  }
  /// For connections that are made from now on.
  void use(const std::string& name) {
    for (const char* part : {".pem", ".key"})
      std::filesystem::copy_file(certificates_.path(name + part), certificates_.path(std::string("server") + part),
                                 std::filesystem::copy_options::overwrite_existing);
    if (proxy_ != nullptr) proxy_->reset();
  }
  std::unique_ptr<Machine> new_machine(int ttl_s) {
    const Fields authority{{"ca", quoted(certificates_.path("ca.pem"))}};
    return std::make_unique<Machine>("https://127.0.0.1:" + std::to_string(proxy_->port()), ttl_s, authority);
  }

  Certificates certificates_;
  std::unique_ptr<EtcdServer> etcd_;
  std::unique_ptr<Proxy> proxy_;
};

TEST_F(CertificateDays, one_that_is_renewed_in_time_costs_nothing) {
  const auto machine = new_machine(kLong);
  machine->start_agent();
  const auto program = machine->program();
  ASSERT_NE(program->lock("k"), 0U);
  certificates_.make("next", "/O=etcd");
  use("next");
  EXPECT_TRUE(eventually([&] { return program->ask("verify k").starts_with("code=yes"); })) << machine->said();
  EXPECT_EQ(program->ask("valid k"), "ok");
  EXPECT_EQ(program->ask("unlock k"), "ok");
}

TEST_F(CertificateDays, one_that_has_expired_is_named_and_locks_come_back_with_the_next) {
  const auto machine = new_machine(kShort);
  machine->start_agent();
  const auto program = machine->program();
  const std::uint64_t token = program->lock("k");
  ASSERT_NE(token, 0U);
  use("expired");
  EXPECT_THAT(program->ask("lose k"), StartsWith("lost "));
  EXPECT_TRUE(eventually([&] { return machine->has_said("certificate has expired"); })) << machine->said();
  EXPECT_EQ(program->lock("k", 0.3), 0U);
  use("good");
  EXPECT_GT(program->lock("k"), token);
}

}  // namespace
}  // namespace holdfast::test
