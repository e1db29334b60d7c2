// Tests the store's client while lookups of endpoint names are slow.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "etcd/fake_server.h"
#include "etcd/store_test.h"

namespace {

constexpr const char* kSlowName = "slow.example";
std::atomic<bool> looks_up{false};
std::atomic<bool> answers{false};

}  // namespace

// Replaces the C library's function. A lookup of kSlowName blocks until the test ends it.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* node, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::strcmp(node, kSlowName) != 0) return real(node, service, hints, found);
  looks_up = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!answers && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  looks_up = false;
  return EAI_AGAIN;
}

namespace holdfast::test {
namespace {

class EtcdNamesTest : public StoreTest {
 protected:
  EtcdNamesTest() { answers = false; }
  ~EtcdNamesTest() override {
    answers = true;
    while (looks_up) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
};

// If an agent waited for a lookup, it would lose its lease.
TEST_F(EtcdNamesTest, a_request_that_has_timed_out_does_not_wait_for_a_lookup) {
  auto hasty = options({std::string("http://") + kSlowName + ":2379"});
  hasty.timeout_ms = 150;
  open(std::move(hasty));
  const agent::LeaseAnswer answer = grant(10);
  EXPECT_NE(answer.answer.outcome, agent::Outcome::answered);
  EXPECT_TRUE(looks_up) << "the answer came only after the lookup";
}

TEST_F(EtcdNamesTest, an_ending_store_does_not_wait_for_a_lookup) {
  open(options({std::string("http://") + kSlowName + ":2379"}));
  store_->grant(10, [](const agent::LeaseAnswer&) {});
  ASSERT_TRUE(await([] { return looks_up.load(); }));
  store_.reset();
  EXPECT_TRUE(looks_up) << "the end of the store waited for the lookup";
}

}  // namespace
}  // namespace holdfast::test
