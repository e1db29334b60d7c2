#include "etcd/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>
#include <utility>

namespace holdfast::etcd {

namespace {

// The longest wait. libcurl's own timeouts are shorter.
constexpr std::int64_t kLongestWaitMs = 60000;

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

CURLM* new_multi() {
  static const CURLcode global = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = global == CURLE_OK ? ::curl_multi_init() : nullptr;
  if (multi == nullptr) throw std::system_error(ENOMEM, std::generic_category(), "curl_multi_init");
  return multi;
}

}  // namespace

std::int64_t boottime_us() noexcept {
  timespec time;
  ::clock_gettime(CLOCK_BOOTTIME, &time);  // cannot fail
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

std::int64_t boottime_ms() noexcept { return boottime_us() / 1000; }

Loop::Loop() : multi_(new_multi(), &::curl_multi_cleanup) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) fail("epoll_create1");
  clock_ = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = clock_;
  if (clock_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, clock_, &event) != 0) {
    const int error = errno;
    if (clock_ >= 0) ::close(clock_);
    ::close(epoll_);
    throw std::system_error(error, std::generic_category(), "timerfd_create");
  }
}

Loop::~Loop() {
  for (const auto& transfer : transfers_) ::curl_multi_remove_handle(multi_.get(), transfer.first);
  ::close(clock_);
  ::close(epoll_);
}

void Loop::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  descriptors_[fd] = std::make_shared<std::function<void(std::uint32_t)>>(std::move(ready));
}

void Loop::unwatch(int fd) {
  if (descriptors_.erase(fd) != 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::at(std::int64_t deadline_ms, Action action) {
  const TimerId id = ++last_timer_;
  timer_of_[id] = timers_.emplace(deadline_ms, std::pair(id, std::move(action)));
  return id;
}

void Loop::cancel(TimerId timer) {
  const auto found = timer_of_.find(timer);
  if (found == timer_of_.end()) return;
  timers_.erase(found->second);
  timer_of_.erase(found);
}

void Loop::add(CURL* transfer, std::function<void(CURLcode)> done) {
  transfers_[transfer] = std::move(done);
  const CURLMcode code = ::curl_multi_add_handle(multi_.get(), transfer);
  if (code == CURLM_OK) return;
  post([this, transfer] {
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) return;
    const auto action = std::move(found->second);
    transfers_.erase(found);
    action(CURLE_OUT_OF_MEMORY);
  });
}

void Loop::remove(CURL* transfer) {
  if (transfers_.erase(transfer) != 0) ::curl_multi_remove_handle(multi_.get(), transfer);
}

void Loop::run() {
  stopped_ = false;
  while (!stopped_) turn(kLongestWaitMs);
}

void Loop::turn(std::int64_t longest_ms) {
  run_posted();
  int running = 0;
  ::curl_multi_perform(multi_.get(), &running);
  run_transfers();
  wait(posted_.empty() && !stopped_ ? longest_ms : 0);
  run_descriptors();
  run_timers();
  ::curl_multi_perform(multi_.get(), &running);
  run_transfers();
  run_posted();
}

void Loop::wait(std::int64_t longest_ms) {
  arm();
  curl_waitfd extra{epoll_, CURL_WAIT_POLLIN, 0};
  const auto timeout = static_cast<int>(std::clamp<std::int64_t>(longest_ms, 0, kLongestWaitMs));
  ::curl_multi_poll(multi_.get(), &extra, 1, timeout, nullptr);
}

// Sets the timerfd to the first deadline.
void Loop::arm() {
  const std::int64_t first = timers_.empty() ? 0 : std::max<std::int64_t>(timers_.begin()->first, 1);
  if (first == armed_for_) return;
  itimerspec when{};
  when.it_value.tv_sec = first / 1000;
  when.it_value.tv_nsec = first % 1000 * 1000000;
  ::timerfd_settime(clock_, TFD_TIMER_ABSTIME, &when, nullptr);
  armed_for_ = first;
}

void Loop::run_descriptors() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == clock_) {
      std::uint64_t times = 0;
      if (::read(clock_, &times, sizeof times) == sizeof times) armed_for_ = 0;
      continue;
    }
    const auto found = descriptors_.find(event.data.fd);  // an earlier callback may have unwatched the descriptor
    if (found == descriptors_.end()) continue;
    const auto ready = found->second;
    (*ready)(event.events);
  }
}

void Loop::run_timers() {
  if (timers_.empty()) return;
  const std::int64_t now = boottime_ms();
  const TimerId newest = last_timer_;  // new timers wait for the next call
  for (auto timer = timers_.begin(); timer != timers_.end() && timer->first <= now;) {
    if (timer->second.first > newest) {
      ++timer;
      continue;
    }
    const Action action = std::move(timer->second.second);
    timer_of_.erase(timer->second.first);
    timers_.erase(timer);
    action();
    timer = timers_.begin();  // the action may have changed the timers
  }
}

void Loop::run_transfers() {
  int left = 0;
  while (const CURLMsg* message = ::curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* transfer = message->easy_handle;
    const CURLcode code = message->data.result;  // copied, because the removal invalidates the message
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end()) continue;
    const auto done = std::move(found->second);
    transfers_.erase(found);
    ::curl_multi_remove_handle(multi_.get(), transfer);
    done(code);
  }
}

void Loop::run_posted() {
  std::vector<Action> actions;
  actions.swap(posted_);
  for (const Action& action : actions) action();
}

}  // namespace holdfast::etcd
