#include "lock/wait_notice.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>

#include "cli/output.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";

std::size_t columns() noexcept {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kUsual;
}

void write_out(const std::string& text) noexcept {
  if (accepts_messages()) [[maybe_unused]]
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

bool accepts_messages() noexcept {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0;
}

WaitNotice::WaitNotice(bool wanted) : enabled_(wanted && ::isatty(STDERR_FILENO) == 1) {}

double WaitNotice::due_in(double waited) const noexcept {
  return enabled_ ? next_ - waited : std::numeric_limits<double>::infinity();
}

void WaitNotice::show(double waited, const std::string& what) {
  if (due_in(waited) > 0) return;
  next_ = waited + 1;
  const std::string line = fmt::format("holdfast: waiting for {}: {}", inspect::duration_in_words(waited), what);
  write_out(kClearLine + cut(line, columns() - 1));
  visible_ = true;
}

void WaitNotice::clear() {
  if (visible_) write_out(kClearLine);
  visible_ = false;
}

}  // namespace holdfast::cli
