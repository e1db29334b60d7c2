#include "death/contender.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "dict/guard.h"
#include "support/shard_check.h"

namespace holdfast::test {

Contender::Contender(const Way& way, Dict& dict, std::string key)
    : way_(way),
      dict_(dict),
      key_(std::move(key)),
      parker_(holdfast_parker_new()),
      waiter_(holdfast_waiter_open(parker_.get())) {}

int Contender::queue(double exptime) {
  return unless_held_up([&] { return way_.wait(dict_, key_, exptime, parker_.get(), waiter_, &lease_, &sleep_time_); });
}

int Contender::wait(double timeout, double exptime) {
  const double end = now() + timeout;
  for (;;) {
    const int code = queue(exptime);
    if (code != HOLDFAST_LOCKED) return code;
    if (now() >= end) return leave() == HOLDFAST_OK ? HOLDFAST_LOCKED : -1;
    sleep(std::min(sleep_time_, end - now()));
  }
}

bool Contender::sleep(double seconds) { return sleep_until_woken(parker_.get(), waiter_, seconds); }

namespace {

int hold_until_told(Contender& contender, Channel& channel) {
  channel.hear();
  channel.say(outcome(contender.release()));
  return 0;
}

}  // namespace

std::unique_ptr<Child> start_holder(const Way& way, Dict& dict, double exptime) {
  return std::make_unique<Child>([&way, &dict, exptime](Channel& channel) {
    Contender contender(way, dict);
    channel.say(outcome(contender.take(exptime)));
    return hold_until_told(contender, channel);
  });
}

std::unique_ptr<Child> start_waiter(const Way& way, Dict& dict, double timeout) {
  return std::make_unique<Child>([&way, &dict, timeout](Channel& channel) {
    Contender contender(way, dict);
    const double start = now();
    int code = contender.queue();
    channel.say(outcome(code));
    if (code == HOLDFAST_LOCKED) code = contender.wait(timeout);
    const bool early = code == HOLDFAST_LOCKED && now() < start + timeout;
    channel.say(early ? "gave up too early" : outcome(code));
    return hold_until_told(contender, channel);
  });
}

std::unique_ptr<Child> start_sluggish_waiter(const Way& way, Dict& dict) {
  return std::make_unique<Child>([&way, &dict](Channel& channel) {
    Contender contender(way, dict);
    channel.say(outcome(contender.queue()));
    channel.hear();
    channel.say(outcome(contender.wait(kLong)));
    return hold_until_told(contender, channel);
  });
}

std::vector<Child*>::iterator first_to_speak(std::vector<Child*>& children) {
  std::vector<pollfd> listening;
  for (Child* const child : children)
    listening.push_back({.fd = child->channel().read_fd(), .events = POLLIN, .revents = 0});
  ::poll(listening.data(), listening.size(), static_cast<int>(std::chrono::milliseconds(kPatience).count()));
  const auto first =
      std::find_if(listening.begin(), listening.end(), [](const pollfd& one) { return one.revents != 0; });
  return children.begin() + (first - listening.begin());
}

std::vector<Child*> pointers(const std::vector<std::unique_ptr<Child>>& children) {
  std::vector<Child*> all;
  all.reserve(children.size());
  for (const auto& child : children) all.push_back(child.get());
  return all;
}

namespace {

const ScratchDirectory directory;

std::string new_name() {
  static int count = 0;
  return "death-" + std::to_string(++count);
}

}  // namespace

DeathTest::DeathTest() : name(new_name()), dict(name) {}

void DeathTest::SetUp() { ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error(); }

// Processes that had not ended were killed at the end of the test, perhaps in the middle of a change.
void DeathTest::TearDown() {
  for (Shard& shard : dict.segment().shards()) EXPECT_TRUE(ShardGuard(shard).held());
  EXPECT_EQ(check_segment(dict.segment()), "");
  holdfast_remove(name.data(), name.size());
}

void DeathTest::stop(const Child& child) {
  const auto free = [](Shard& shard) {
    if (shard.mutex().try_lock() != LockResult::acquired) return false;
    shard.mutex().unlock();
    return true;
  };
  ASSERT_TRUE(eventually([&] {
    child.stop();
    auto& shards = dict.segment().shards();
    if (std::all_of(shards.begin(), shards.end(), free)) return true;
    child.signal(SIGCONT);
    return false;
  }));
}

void DeathTest::expect_served(std::vector<Child*> waiting) {
  while (!waiting.empty()) {
    const auto next = first_to_speak(waiting);
    ASSERT_NE(next, waiting.end()) << waiting.size() << " left";
    Child& one = **next;
    EXPECT_EQ(one.hear(), kOk);
    EXPECT_EQ(one.ask("release"), kOk);
    EXPECT_EQ(one.wait(), 0);
    waiting.erase(next);
  }
}

std::uint32_t DeathTest::waiters() {
  constexpr std::uint64_t kForCounting = 20 * kNsPerSecond;
  std::uint32_t count = 0;
  for (Shard& shard : dict.segment().shards()) {
    const ShardGuard guard(shard, kForCounting);  // the mutex may be held, because waiters poll from time to time
    EXPECT_TRUE(guard.held());
    count += count_shard(shard).waiters;
  }
  return count;
}

std::string name_of_way(const ::testing::TestParamInfo<Way>& info) { return info.param.name; }

bool is_zombie(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto end_of_name = text.rfind(") ");
  return end_of_name != std::string::npos && text[end_of_name + 2] == 'Z';
}

}  // namespace holdfast::test
