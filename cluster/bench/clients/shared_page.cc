#include "shared_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace holdfast::bench {

namespace {

constexpr double kPatience = 60;

void* map(const std::string& path, std::size_t size) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), path);
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  ::close(file);
  if (address == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  return address;
}

}  // namespace

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void nap(double seconds) {
  if (seconds <= 0) return;
  const auto whole = static_cast<time_t>(seconds);
  timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  while (::nanosleep(&time, &time) != 0 && errno == EINTR) continue;
}

SharedPage::SharedPage(const std::string& path, std::size_t self)
    : page_(static_cast<Layout*>(map(path, sizeof(Layout)))), self_(self) {
  if (self >= kContendersMax) throw std::out_of_range("more contenders than places");
}

double SharedPage::await_start() {
  page_->ready[self_].store(1);
  const double patience = now() + kPatience;
  double start = 0;
  while ((start = page_->start.load()) == 0 && now() < patience) nap(0.001);
  if (start <= 0) throw std::runtime_error("the other contenders did not arrive");
  nap(start - now());
  return start;
}

void SharedPage::section(double seconds) {
  const double self = static_cast<double>(self_) + 1;
  if (page_->owner.load() != 0) ++overlaps_;
  page_->owner.store(self);
  const double count = page_->counter.load();
  const double end = now() + seconds;
  while (now() < end) continue;
  if (page_->owner.load() != self) ++overlaps_;
  page_->counter.store(count + 1);
  page_->owner.store(0);
}

}  // namespace holdfast::bench
