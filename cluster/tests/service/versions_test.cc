// Tests which etcd servers an agent accepts when it starts. From each member's own answer, the agent knows whether the
// member may end leases early.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "etcd/etcd_server.h"
#include "etcd/fake_server.h"
#include "service/machine.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

/// A member that only reports a version.
class Member {
 public:
  explicit Member(const char* version, int cluster = 7) : version_(version), cluster_(cluster) {}
  void update(const char* version) { version_ = version; }
  void be_of(int cluster) { cluster_ = cluster; }
  void go() { is_there_ = false; }
  void come() { is_there_ = true; }
  std::string url() const { return server_.url(); }
  int leases_asked() { return server_.count("/v3/lease/grant"); }

 private:
  std::atomic<const char*> version_;
  std::atomic<int> cluster_;
  std::atomic<bool> is_there_ = true;
  FakeServer server_{[this](const FakeRequest& request, FakeConnection& connection) {
    if (!is_there_)
      connection.close();
    else if (request.path == "/version")
      connection.answer(200, std::string(R"({"etcdserver":")") + version_.load() + R"(","etcdcluster":"3.4.0"})");
    else if (request.path == "/v3/maintenance/status")
      connection.answer(200, R"({"header":{"cluster_id":")" + std::to_string(cluster_) + R"("},"version":"3.5.0"})");
    else if (request.path == "/v3/lease/grant")
      connection.answer(
          200, R"({"header":{"cluster_id":")" + std::to_string(cluster_) + R"("}})");  // answers, but grants no lease
    else
      connection.answer(503, "{}");
  }};
};

constexpr const char* kWarning = " may end a lease early";

TEST(VersionsTest, an_agent_that_requires_a_fixed_etcd_waits_for_each_member) {
  Member mended("3.5.21");
  Member old("3.4.23");
  Machine machine(joined({mended.url(), old.url()}), 10, {{"require_fixed_etcd", "true"}});
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return machine.has_said("etcd 3.4.23 at " + old.url() + kWarning); })) << machine.said();
  EXPECT_TRUE(machine.has_said("; require_fixed_etcd is set"));
  EXPECT_EQ(mended.leases_asked() + old.leases_asked(), 0);
  old.update("3.4.31");
  EXPECT_TRUE(eventually([&] { return mended.leases_asked() + old.leases_asked() > 0; }));
}

TEST(VersionsTest, an_agent_that_accepts_any_etcd_warns_once_about_each_old_member_and_starts) {
  Member mended("3.5.21");
  Member old("3.4.23");
  Machine machine(joined({mended.url(), old.url()}));
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return mended.leases_asked() + old.leases_asked() > 0; }));
  EXPECT_TRUE(machine.has_said("warning: etcd 3.4.23 at " + old.url() + kWarning)) << machine.said();
  EXPECT_FALSE(machine.has_said("at " + mended.url() + kWarning)) << machine.said();
}

// Each of the two clusters would grant every lock, so two machines could hold the same lock.
TEST(VersionsTest, an_agent_does_not_start_with_members_of_two_clusters) {
  Member one("3.5.21", 7);
  Member two("3.5.21", 8);
  Machine machine(joined({one.url(), two.url()}));
  machine.start_agent();
  EXPECT_TRUE(eventually([&] {
    return machine.has_said("etcd at " + two.url() + " belongs to a different etcd cluster than " + one.url() +
                            "; configure the endpoints of only one cluster");
  })) << machine.said();
  EXPECT_EQ(one.leases_asked() + two.leases_asked(), 0);
}

TEST(VersionsTest, an_agent_starts_with_the_cluster_of_most_members_and_warns_about_others) {
  Member one("3.5.21", 7);
  Member two("3.5.21", 8);
  Member three("3.5.21", 7);
  Machine machine(joined({one.url(), two.url(), three.url()}));
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return one.leases_asked() + three.leases_asked() > 0; })) << machine.said();
  EXPECT_TRUE(machine.has_said("warning: etcd at " + two.url() +
                               " belongs to a different etcd cluster: 0000000000000008, expected "
                               "0000000000000007; if the store was replaced on purpose, run holdfast cluster "
                               "accept-new-store main 0000000000000008"))
      << machine.said();
}

TEST(VersionsTest, an_agent_does_not_start_before_most_members_have_named_their_cluster) {
  Member one("3.5.21");
  Member two("3.5.21");
  Member three("3.5.21");
  two.go();
  three.go();
  Machine machine(joined({one.url(), two.url(), three.url()}));
  machine.start_agent();
  EXPECT_TRUE(eventually([&] {
    return machine.has_said("too few endpoints belong to etcd cluster 0000000000000007: 1 of 3, expected 2: etcd at " +
                            two.url());
  })) << machine.said();
  EXPECT_EQ(one.leases_asked(), 0);
  three.come();
  EXPECT_TRUE(eventually([&] { return one.leases_asked() > 0; })) << machine.said();
}

TEST(VersionsTest, a_restarted_agent_knows_its_predecessors_cluster) {
  Member member("3.5.21", 7);
  Machine machine(member.url());
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return member.leases_asked() > 0; })) << machine.said();
  machine.agent().kill_and_wait();
  EXPECT_TRUE(exists(machine.directory() + "/.store-main"));
  member.be_of(8);
  machine.start_agent();
  EXPECT_TRUE(eventually([&] {
    return machine.has_said("a different etcd cluster: 0000000000000008, expected 0000000000000007");
  })) << machine.said();
}

TEST(VersionsTest, an_agent_checks_its_members_repeatedly) {
  Member one("3.5.21");
  Member two("3.5.21");
  Member three("3.5.21");
  two.go();
  Machine machine(joined({one.url(), two.url(), three.url()}));
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return one.leases_asked() > 0; })) << machine.said();
  one.be_of(8);  // the agent notices this with its next request to `one`, and then asks all members
  EXPECT_TRUE(eventually([&] {
    return machine.has_said("etcd at " + one.url() + " belongs to a different etcd cluster: ");
  })) << machine.said();
}

}  // namespace
}  // namespace holdfast::test
