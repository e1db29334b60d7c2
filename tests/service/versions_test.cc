// Which etcd an agent begins to use: members that may end leases early are told from others, each by its own answer.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "cluster/fake_server.h"
#include "service/machine.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

/// A member that tells a version, and does nothing else.
class Member {
 public:
  explicit Member(const char* version, std::string cluster = "7") : version_(version), cluster_(std::move(cluster)) {}
  void update(const char* version) { version_ = version; }
  std::string url() const { return server_.url(); }
  int leases_asked() { return server_.count("/v3/lease/grant"); }

 private:
  std::atomic<const char*> version_;
  const std::string cluster_;
  FakeServer server_{[this](const FakeRequest& request, FakeConnection& connection) {
    if (request.path == "/version")
      connection.answer(200, std::string(R"({"etcdserver":")") + version_.load() + R"(","etcdcluster":"3.4.0"})");
    else if (request.path == "/v3/maintenance/status")
      connection.answer(200, R"({"header":{"cluster_id":")" + cluster_ + R"("},"version":"3.5.0"})");
    else
      connection.answer(503, "{}");
  }};
};

constexpr const char* kWarning = " may end a lease early";

TEST(VersionsTest, an_agent_that_wants_a_mended_etcd_waits_for_each_member) {
  Member mended("3.5.21");
  Member old("3.4.23");
  Machine machine(mended.url() + "," + old.url(), 10, {{"require_fixed_etcd", "true"}});
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return machine.has_said("etcd 3.4.23 at " + old.url() + kWarning); })) << machine.said();
  EXPECT_TRUE(machine.has_said("; require_fixed_etcd is set"));
  EXPECT_EQ(mended.leases_asked() + old.leases_asked(), 0);
  old.update("3.4.31");
  EXPECT_TRUE(eventually([&] { return mended.leases_asked() + old.leases_asked() > 0; }));
  machine.agent().kill_and_wait();
}

TEST(VersionsTest, an_agent_that_takes_any_etcd_warns_of_each_such_member_once_and_begins) {
  Member mended("3.5.21");
  Member old("3.4.23");
  Machine machine(mended.url() + "," + old.url());
  machine.start_agent();
  EXPECT_TRUE(eventually([&] { return mended.leases_asked() + old.leases_asked() > 0; }));
  EXPECT_TRUE(machine.has_said("warning: etcd 3.4.23 at " + old.url() + kWarning)) << machine.said();
  EXPECT_FALSE(machine.has_said("at " + mended.url() + kWarning)) << machine.said();
  machine.agent().kill_and_wait();
}

// Each would give every lock to somebody.
TEST(VersionsTest, an_agent_does_not_begin_with_members_of_two_clusters) {
  Member one("3.5.21", "7");
  Member two("3.5.21", "8");
  Machine machine(one.url() + "," + two.url());
  machine.start_agent();
  EXPECT_TRUE(eventually([&] {
    return machine.has_said("etcd at " + two.url() + " is of another cluster than etcd at " + one.url() +
                            ": give endpoints of one");
  })) << machine.said();
  EXPECT_EQ(one.leases_asked() + two.leases_asked(), 0);
  machine.agent().kill_and_wait();
}

}  // namespace
}  // namespace holdfast::test
