#include "wait/death_watch.h"

#include <memory>
#include <string>

#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

// The time from a notice to the check. During this time, the kernel drops the record lock, and other notices of the
// same death arrive. No benchmark covers these three constants, because the waits of "takeover" are too short for this
// thread. death_watch_test.cc has longer waits.
constexpr std::uint64_t kEarlyNs = 300'000;
// The time from that check to a second check, which finds deaths for which the first check was too early. If processes
// start and exit all the time, there is one check per such period.
constexpr std::uint64_t kAgainNs = 10'000'000;
constexpr std::uint64_t kRetryNs = 30'000'000'000;

struct Job {
  World& world;
  DeathWatch::Round round;
  std::string path;
  platform::FileId file;
};

/// Checks after a notice, until no more notices arrive. Returns whether the thread continues.
bool look_around(const Job& job, platform::CloseNotice& notice) noexcept {
  platform::sleep_until(platform::monotonic_ns() + kEarlyNs);
  do {
    notice.wait(0);
    if (!job.round(job.world, DeathWatch::Event::look)) return false;
    platform::sleep_until(platform::monotonic_ns() + kAgainNs);
  } while (notice.wait(0));
  return job.round(job.world, DeathWatch::Event::look);
}

void watch(const Job& job) noexcept {
  platform::CloseNotice notice;
  const bool open = notice.open(job.path.c_str(), job.file) == 0;
  if (!job.round(job.world, open ? DeathWatch::Event::started : DeathWatch::Event::refused)) return;
  for (bool on = true; on;) {
    on = notice.wait(platform::monotonic_ns() + DeathWatch::kIdleNs) ? look_around(job, notice)
                                                                     : job.round(job.world, DeathWatch::Event::idle);
  }
}

void* run(void* argument) noexcept {
  {
    const std::unique_ptr<Job> job(static_cast<Job*>(argument));
    platform::name_this_thread("holdfast-death");
    watch(*job);
  }
  platform::background_thread_ends();
  return nullptr;
}

}  // namespace

void DeathWatch::begin(World& world, Token self, Round round, std::uint64_t now_ns) noexcept {
  if (self == kNobody || owner_ == self || now_ns < retry_ns_) return;
  forget();
  retry_ns_ = now_ns + kRetryNs;
  try {
    // A fork waits for the parking lot's mutex, so no child is forked after the start of the thread and before the
    // thread is recorded here.
    auto job = std::make_unique<Job>(Job{world, round, world.table_path(), world.table_file()});
    if (platform::start_thread(&run, job.get()) != 0) return;
    static_cast<void>(job.release());  // the thread owns it now
    owner_ = self;
  } catch (...) {
    // Without memory for the thread, parkers check at short intervals.
  }
}

void DeathWatch::note_refused(std::uint64_t now_ns) noexcept {
  forget();
  retry_ns_ = now_ns + kRetryNs;
}

}  // namespace holdfast
