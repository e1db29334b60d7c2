// Tests a store that replaces an earlier store: an etcd that was wiped, and started again as its own cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "etcd/etcd_server.h"
#include "etcd/fake_server.h"
#include "service/machine.h"
#include "support/process.h"

namespace holdfast::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr const char* kStranger = " belongs to a different etcd cluster: ";

/// Starts a new cluster with a single member, which listens on this port.
std::unique_ptr<EtcdServer> wiped_member_at(int port) {
  const int peer_port = free_port();
  EtcdServer::Member member{"impostor", port, peer_port, peer_port, "", false};
  member.initial_cluster = "impostor=http://127.0.0.1:" + std::to_string(peer_port);
  auto server = std::make_unique<EtcdServer>(std::move(member));
  server->start();
  return server;
}

/// Returns the hexadecimal digits after the last occurrence of the word.
std::string id_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.rfind(word);
  return at == std::string::npos ? "" : text.substr(at + word.size(), 16);
}

// A machine that reaches only the wiped member must not get a lock of another machine, which reaches all members.
TEST(StoreIdentity, a_wiped_member_started_alone_is_refused_even_if_no_other_member_is_reached) {
  EtcdCluster cluster;
  MemberProxies proxies(cluster);
  Peer a(joined(proxies.urls()), kShort);
  Peer b(joined({cluster[1].url(), cluster[2].url(), cluster[0].url()}), kShort);
  a.hold("k");
  for (const std::size_t cut_off : {1, 2}) proxies[cut_off].cut();
  cluster[0].kill();
  const auto impostor = wiped_member_at(cluster[0].port());
  EXPECT_THAT(a.ask("lose k"), StartsWith("lost "));
  EXPECT_NE(b.lock("k"), 0U);
  EXPECT_TRUE(eventually([&] { return a.has_said("etcd at " + proxies[0].url() + kStranger); })) << a.said();
  EXPECT_EQ(a.lock("k", 2 * kShort), 0U) << a.said();
  EXPECT_EQ(impostor->count(std::string(kSpace) + "/l/"), 0U);
  EXPECT_THAT(run_command(a, "doctor"), Pair(HasSubstr("cluster main\tits agent refuses etcd cluster "), 2));

  // A restarted agent must not accept the wiped member either, even without the saved id.
  a.agent().kill_and_wait();
  ASSERT_EQ(std::system(("rm " + a.directory() + "/.store-main").c_str()), 0);
  a.start_agent();
  EXPECT_TRUE(eventually([&] { return a.has_said("too few endpoints belong to etcd cluster "); })) << a.said();
  EXPECT_EQ(a.lock("k", 1), 0U);

  for (const std::size_t cut_off : {1, 2}) proxies[cut_off].pass();
  EXPECT_NE(a.lock("other"), 0U) << a.said();
  EXPECT_EQ(b.ask("valid k"), "ok");
  EXPECT_EQ(impostor->count(std::string(kSpace) + "/l/"), 0U);
}

TEST(StoreIdentity, the_only_etcd_is_refused_after_its_recreation_until_an_operator_accepts_it) {
  const auto etcd = std::make_unique<EtcdServer>();
  Peer a(etcd->url(), kShort);
  a.hold("k");
  const auto [before, well] = run_command(a, "cluster status");
  EXPECT_EQ(well, 0);
  const std::string known = id_after(before, "; cluster ");
  EXPECT_EQ(known.size(), 16U) << before;
  etcd->kill();
  const auto again = wiped_member_at(etcd->port());
  EXPECT_TRUE(eventually([&] { return a.has_said(kStranger); })) << a.said();
  EXPECT_THAT(a.ask("lose k"), StartsWith("lost "));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(a.lock("k", kShort + 1), 0U);
    a.restart_agent();
  }
  ASSERT_TRUE(
      eventually([&] { return run_command(a, "cluster status").first.find("is refused") != std::string::npos; }));
  const std::string status = run_command(a, "cluster status").first;
  EXPECT_THAT(status, HasSubstr("; cluster " + known + "; cluster "));
  const std::string refused = id_after(status.substr(0, status.rfind(" is refused")), "; cluster ");
  EXPECT_THAT(run_command(a, "doctor"),
              Pair(::testing::AllOf(HasSubstr("its agent refuses etcd cluster " + refused + ": expected " + known),
                                    HasSubstr("holdfast cluster accept-new-store main " + refused)),
                   2));
  EXPECT_THAT(run_command(a, "cluster accept-new-store main 1234"),
              Pair(HasSubstr("main: no endpoint belongs to that store"), 1));
  EXPECT_THAT(run_command(a, "cluster accept-new-store main xyz"), Pair(HasSubstr("bad ID \"xyz\""), 2));
  EXPECT_THAT(run_command(a, "cluster accept-new-store other 1234"),
              Pair(HasSubstr("no agent of cluster \"other\" runs in "), 2));
  EXPECT_THAT(run_command(a, "cluster accept-new-store main " + refused),
              Pair(StartsWith("main: accepted etcd cluster " + refused + " as the store"), 0));
  EXPECT_NE(a.lock("k"), 0U) << a.said();
  EXPECT_EQ(again->count(std::string(kSpace) + "/l/"), 1U);
  a.restart_agent();
  EXPECT_NE(a.lock("other"), 0U) << a.said();
}

TEST(StoreIdentity, is_kept_in_the_state_directory_and_an_unreadable_file_is_reported) {
  EtcdServer etcd;
  const ScratchDirectory state;
  Peer a(etcd.url(), 10, {{"state_directory", '"' + state.path() + '"'}});
  a.hold("k");
  EXPECT_TRUE(exists(state / "store-main"));
  EXPECT_FALSE(exists(a.directory() + "/.store-main"));
  a.agent().kill_and_wait();
  std::ofstream(state / "store-main") << "no id\n";
  a.start_agent();
  EXPECT_EQ(a.agent().wait(), 2);
  EXPECT_TRUE(a.has_said("cannot read the id of the cluster's store: " + (state / "store-main") +
                         ": it does not contain a store's id; remove that file if the endpoints are right"))
      << a.said();
}

}  // namespace
}  // namespace holdfast::test
