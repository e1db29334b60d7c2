#include "look/top_live.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/descriptor.h"
#include "cli/signals.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "inspect/world.h"
#include "look/top_screen.h"

namespace holdfast::cli {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

/// Reads signals in the same way as keys, so that no signal interrupts drawing.
class Signals {
 public:
  Signals() {
    sigset_t all;
    ::sigemptyset(&all);
    for (const int number : kSignals) ::sigaddset(&all, number);
    ::sigprocmask(SIG_BLOCK, &all, &before_);
    file_ = inspect::Descriptor(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~Signals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const noexcept { return file_.get(); }
  /// Returns 0 if there is no signal.
  int next() const {
    signalfd_siginfo info{};
    return ::read(file_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  inspect::Descriptor file_;
};

/// Lets the signal have its default effect on this process.
void suffer(int number) {
  sigset_t one;
  sigset_t before;
  ::sigemptyset(&one);
  ::sigaddset(&one, number);
  ::signal(number, SIG_DFL);
  ::raise(number);
  ::sigprocmask(SIG_UNBLOCK, &one, &before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

class Live {
 public:
  Live(TopView& view, const TakeSnapshot& take, bool colours) : view_(view), take_(take), screen_(colours) {}

  /// Returns the signal that ended the loop, or 0 if a key ended it or the terminal is gone.
  int run() {
    refresh();
    while (!over_) {
      screen_.draw(view_, messages_);
      wait();
      take_signals();
      take_keys();
      if (!over_ && !view_.paused() && holdfast_now() >= due_) refresh();
    }
    return ended_by_;
  }

  bool terminal_is_gone() const noexcept { return gone_; }

 private:
  // Takes a snapshot and shows it. The second refresh follows quickly, so that rates appear soon.
  void refresh() {
    constexpr double kFirstInterval = 0.25;
    auto seen = take_();
    due_ = holdfast_now() + (refreshed_ ? view_.pace().delay() : std::min(kFirstInterval, view_.pace().delay()));
    if (!seen) messages_ = {inspect::without_controls(seen.status().message)};
    if (!seen) return;
    messages_ = seen->troubles();
    if (!seen->is_used) messages_ = {inspect::kUnusedYet};
    view_.show(std::move(*seen));
    refreshed_ = true;
  }

  void wait() {
    constexpr double kMilli = 1000;
    due_ = std::min(due_, holdfast_now() + view_.pace().delay());  // the user may have shortened the delay
    const double left = std::max(0.0, due_ - holdfast_now());
    pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.file(), POLLIN, 0}, {release_.output(), POLLIN, 0}};
    const int ready = ::poll(files, std::size(files), view_.paused() ? -1 : static_cast<int>(left * kMilli) + 1);
    if (ready <= 0) return;
    gone_ = (files[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    over_ = gone_;
    has_keys_ = (files[0].revents & POLLIN) != 0;
    if (files[2].revents != 0) end_request(release_.read());
  }

  void begin_request(const TopRequest& request) {
    end_request(request.signal == TopRequest::kNoSignal ? release_.start(request) : send_signal(request));
  }

  /// Shows the result of a request, unless it is empty because the request is still running.
  void end_request(const std::string& what) {
    if (what.empty()) return;
    view_.set_remark(what);
    due_ = holdfast_now();
  }

  void take_keys() {
    TopPress press;
    bool any = false;
    while (!over_ && has_keys_ && screen_.read(press)) {
      any = true;
      over_ = !view_.press(press.key, press.text, screen_.page());
      if (const auto request = view_.take_confirmed()) begin_request(*request);
    }
    // If there is input but no complete key, the input is a part of a key, or the end of file, which every further read
    // reports again.
    constexpr int kMost = 100;
    empty_ = has_keys_ && !any ? empty_ + 1 : 0;
    if (empty_ > kMost) over_ = gone_ = true;
    has_keys_ = false;
  }

  void take_signals() {
    for (int number = signals_.next(); number != 0; number = signals_.next()) {
      if (number == SIGWINCH) {
        screen_.resize();
      } else if (number == SIGTSTP) {
        screen_.leave();
        suffer(SIGTSTP);
        screen_.come_back();
      } else if (number == SIGCONT) {
        screen_.come_back();
      } else {
        over_ = true;
        ended_by_ = number == SIGINT ? 0 : number;
        screen_.end_by(number);
      }
    }
  }

  TopView& view_;
  const TakeSnapshot& take_;
  Signals signals_;
  TopScreen screen_;
  TopRelease release_;
  bool refreshed_ = false;
  std::vector<std::string> messages_;
  double due_ = 0;
  bool has_keys_ = false;
  int empty_ = 0;
  bool over_ = false;
  bool gone_ = false;
  int ended_by_ = 0;
};

}  // namespace

int run_top_live(TopView& view, const TakeSnapshot& take, bool colours) {
  int ended_by = 0;
  bool gone = false;
  {
    Live live(view, take, colours);
    ended_by = live.run();
    gone = live.terminal_is_gone();
  }
  if (ended_by != 0) die_by(ended_by);
  return gone ? exit_status::kTrouble : exit_status::kYes;
}

}  // namespace holdfast::cli
