// The etcd clients with which `make bench-cluster` compares a cluster's locks: contenders for one lock, and a client
// that takes free locks. HOLDFAST_BENCH_PART selects the client. The result lines have the same form as those of the
// parts in Lua.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/document.h"
#include "agent/keys.h"
#include "agent/protocol.h"
#include "options.h"
#include "recipes.h"
#include "session.h"
#include "shared_page.h"

namespace holdfast::bench {

namespace {

std::unique_ptr<Recipe> recipe_for(const std::string& part, const Options& options) {
  if (part == "stock") return std::make_unique<StockLock>(options.text("url"), options.text("space"));
  if (part == "fixed") return std::make_unique<QueueLock>(options.text("url"), options.text("space"));
  if (part == "none") return std::make_unique<NoLock>();
  throw std::invalid_argument("no part " + part);
}

/// Returns the bucket of a duration (bench/support/stats.lua).
int bucket_of(double seconds) {
  constexpr double kShortest = 1e-6;
  constexpr double kPerDecade = 20;
  return std::max(0, static_cast<int>(std::ceil(std::log10(seconds / kShortest) * kPerDecade)));
}

/// Returns a contender that has already had the lock once.
std::unique_ptr<Recipe> connect(const std::string& part, const Options& options, SharedPage& page) try {
  std::unique_ptr<Recipe> lock = recipe_for(part, options);
  lock->lock();
  lock->unlock();
  return lock;
} catch (...) {
  page.give_up();
  throw;
}

/// Does the same as cluster/bench/contender.lua. The last wait ends after the deadline, so it counts as a wait, but not
/// as an acquisition.
void contend(const std::string& part, const Options& options) {
  SharedPage page(options.text("page"), static_cast<std::size_t>(options.number("process")));
  const std::unique_ptr<Recipe> lock = connect(part, options, page);
  const double held = options.number("held");
  const double pause = options.number("pause");
  const double end = page.await_start() + options.number("seconds");
  std::map<int, int> waits;
  int acquired = 0;
  double longest = 0;
  for (;;) {
    const double asked = now();
    lock->lock();
    const double got = now();
    ++waits[bucket_of(got - asked)];
    longest = std::max(longest, got - asked);
    if (got >= end) break;
    page.section(held);
    ++acquired;
    lock->unlock();
    nap(pause);
  }
  lock->unlock();
  std::printf("contender\t%d\t%llu\t%.17g\n", acquired, static_cast<unsigned long long>(page.overlaps()), longest);
  std::printf("waits");
  for (const auto& [bucket, count] : waits) std::printf("\t%d\t%d", bucket, count);
  std::printf("\n");
}

/// Sends the transaction that an agent uses to request a free lock, without an agent. Prints how many seconds each
/// request took.
void ask(const Options& options) {
  Session session(options.text("url"));
  const agent::Keys keys(options.text("space"));
  const agent::Protocol protocol(keys, session.lease());
  const int samples = static_cast<int>(options.number("samples"));
  const int warm_up = static_cast<int>(options.number("warm_up"));
  std::vector<double> times;
  for (int i = 1 - warm_up; i <= samples; ++i) {
    const double asked = now();
    const agent::LockName name{"bench_cluster", options.text("round") + "-" + std::to_string(i)};
    const std::string document = agent::write_document({"bench", "a machine", 1, 0, name, {1, "cluster_clients", ""}});
    if (!session.transact(protocol.ask(name, document)).guarded) throw std::runtime_error("the lock is taken");
    if (i > 0) times.push_back(now() - asked);
  }
  std::printf("ask");
  for (const double time : times) std::printf("\t%.17g", time);
  std::printf("\n");
}

}  // namespace

}  // namespace holdfast::bench

int main() try {
  const char* given = std::getenv("HOLDFAST_BENCH_PART");
  if (given == nullptr) throw std::invalid_argument("to be started by bench/run --cluster");
  const std::string part = given;
  const holdfast::bench::Options options;
  if (part == "ask")
    holdfast::bench::ask(options);
  else
    holdfast::bench::contend(part, options);
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::printf("failed\t%s\n", error.what());
  return EXIT_FAILURE;
}
