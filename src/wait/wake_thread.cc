#include "wait/wake_thread.h"

#include <memory>

#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/world.h"

namespace holdfast {

namespace {

struct Job {
  World& world;
  WakeThread::Round round;
};

void* run(void* argument) noexcept {
  const Job job = *std::unique_ptr<Job>(static_cast<Job*>(argument));
  platform::name_this_thread("holdfast-wake");
  for (;;) {
    const std::uint32_t seen = mailbox_value(job.world);  // before the round reads the mail
    const std::uint64_t next = job.round();
    if (next == 0) {
      platform::background_thread_ends();
      return nullptr;
    }
    sleep_on_mailbox(job.world, seen, next);
  }
}

}  // namespace

Status WakeThread::be_up(World& world, Round round, std::uint64_t deadline_ns) {
  const Token self = world.token();
  if (self == kNobody) return World::last_failure();
  if (owner_ == self) {
    if (deadline_ns < until_) {
      until_ = deadline_ns;
      wake_own_threads(world);
    }
    return {};
  }
  // A fork waits for the parking lot's mutex, so no child is forked after the start of the thread and before the thread
  // is recorded here.
  auto job = std::make_unique<Job>(Job{world, round});
  if (const int error = platform::start_thread(&run, job.get())) {
    return {Code::system, "cannot start the wake thread: " + platform::error_text(error)};
  }
  static_cast<void>(job.release());  // the thread owns it now
  owner_ = self;
  until_ = 0;  // the thread begins with a round
  idle_since_ = 0;
  return {};
}

std::uint64_t WakeThread::plan(std::uint64_t now_ns, bool needed, std::uint64_t due_ns) noexcept {
  if (needed) {
    idle_since_ = 0;
    return until_ = due_ns;
  }
  if (idle_since_ == 0) idle_since_ = now_ns;
  if (now_ns - idle_since_ < kLingerNs) return until_ = idle_since_ + kLingerNs;
  forget();
  return 0;
}

}  // namespace holdfast
