// The agent's event loop. It has one thread, and handles file descriptors, timers and libcurl's transfers.
//
// Callbacks run only from turn(), and may call any function of the loop.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace holdfast::etcd {

/// Returns CLOCK_BOOTTIME, which continues while the machine is suspended, as leases do.
std::int64_t boottime_ms() noexcept;
std::int64_t boottime_us() noexcept;

class Loop {
 public:
  using Action = std::function<void()>;
  using TimerId = std::uint64_t;

  /// Throws std::system_error if the process cannot get the descriptors.
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Calls `ready` with the events that epoll(7) reports for the descriptor. The caller still owns the descriptor.
  /// REQUIRES: the descriptor is not watched yet, and remains open until unwatch().
  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  void unwatch(int fd);

  /// Runs the action once, when boottime_ms() reaches the deadline, even if the machine is suspended in the meantime.
  TimerId at(std::int64_t deadline_ms, Action action);
  TimerId after(std::int64_t delay_ms, Action action) { return at(boottime_ms() + delay_ms, std::move(action)); }
  /// Cancels a timer. Does nothing if its action has already run.
  void cancel(TimerId timer);
  /// Runs the action in the current or the next turn().
  void post(Action action) { posted_.push_back(std::move(action)); }

  /// Waits until something happens, but at most `longest_ms`. Then runs everything that is due.
  void turn(std::int64_t longest_ms);
  /// Calls turn() repeatedly until stop() is called.
  void run();
  void stop() noexcept { stopped_ = true; }

  /// Starts a transfer. Calls `done` once, unless remove() is called first. The loop uses the handle's CURLOPT_PRIVATE.
  void add(CURL* transfer, std::function<void(CURLcode)> done);
  void remove(CURL* transfer);

 private:
  using Timers = std::multimap<std::int64_t, std::pair<TimerId, Action>>;

  void arm();
  void wait(std::int64_t longest_ms);
  void run_posted();
  void run_descriptors();
  void run_timers();
  void run_transfers();

  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  int epoll_ = -1;  // one for all descriptors, because curl_multi_poll() does not report POLLHUP
  int clock_ = -1;  // a timerfd, because the timeout of poll(2) does not include the time of a suspension
  std::int64_t armed_for_ = 0;
  bool stopped_ = false;
  TimerId last_timer_ = 0;
  Timers timers_;
  std::unordered_map<TimerId, Timers::iterator> timer_of_;
  std::vector<Action> posted_;
  // The pointers are shared, because a callback may unwatch its own descriptor while it is running.
  std::unordered_map<int, std::shared_ptr<std::function<void(std::uint32_t)>>> descriptors_;
  std::unordered_map<CURL*, std::function<void(CURLcode)>> transfers_;
};

}  // namespace holdfast::etcd
