#include "serve/gatherer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "holdfast.h"

namespace holdfast::serve {

namespace {

constexpr double kMicro = 1e-6;

void append(std::string& to, const std::string& text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to += text;
}

/// Cuts the text off; false if it is not whole.
bool cut(std::string_view& from, std::string& text) {
  std::uint64_t size = 0;
  if (from.size() < sizeof size) return false;
  std::memcpy(&size, from.data(), sizeof size);
  if (from.size() - sizeof size < size) return false;
  text = from.substr(sizeof size, size);
  from.remove_prefix(sizeof size + size);
  return true;
}

std::string pack(const Documents& documents) {
  std::string packed;
  for (const auto& [name, text] : documents) {
    append(packed, name);
    append(packed, text);
  }
  return packed;
}

Documents unpack(std::string_view packed) {
  Documents documents;
  std::string name;
  std::string text;
  while (!packed.empty()) {
    if (!cut(packed, name) || !cut(packed, text)) break;
    documents[name] = std::move(text);
  }
  // A process that was ended early says nothing, or a part.
  if (documents.empty() || !packed.empty()) return {{"error", "the look at the world did not come to its end"}};
  return documents;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kMicro;
}

/// In the child.
[[noreturn]] void tell(const Gatherer::Gather& gather, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // The port and the connections are the parent's alone.
  inspect::close_between(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1);
  inspect::close_between(static_cast<unsigned>(pipe) + 1, ~0U);
  std::string packed;
  try {
    packed = pack(gather());
  } catch (const std::exception& error) {
    packed = pack({{"error", error.what()}});
  }
  for (std::size_t at = 0; at < packed.size();) {
    const ssize_t written = ::write(pipe, packed.data() + at, packed.size() - at);
    if (written < 0 && errno != EINTR) ::_exit(1);
    at += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
  }
  ::_exit(0);
}

}  // namespace

double seconds_kept(double took, double part) { return std::clamp(took / part, kKeep, kKeepMost); }

std::shared_ptr<const Documents> Gatherer::documents() {
  if (latest_ && holdfast_now() < fresh_until_) return latest_;
  if (child_ == 0) start();
  return child_ != 0 ? nullptr : latest_;
}

void Gatherer::start() {
  const auto fail = [this](const char* call) {
    latest_ = std::make_shared<Documents>(Documents{{"error", std::string(call) + ": " + std::strerror(errno)}});
    fresh_until_ = holdfast_now() + kKeep;
  };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail("pipe2");
  inspect::Descriptor reading(ends[0]);
  const inspect::Descriptor writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) tell(gather_, writing.get(), parent);
  child_ = child;
  deadline_ = holdfast_now() + patience_;
  pipe_ = std::move(reading);
  received_.clear();
}

bool Gatherer::read() {
  std::array<char, 65536> room;
  for (;;) {
    const ssize_t size = ::read(pipe_.get(), room.data(), room.size());
    if (size > 0) {
      received_.append(room.data(), static_cast<std::size_t>(size));
      continue;
    }
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    finish();
    return true;
  }
}

void Gatherer::finish() {
  rusage used{};
  while (::wait4(child_, nullptr, 0, &used) < 0 && errno == EINTR) continue;
  child_ = 0;
  pipe_.reset();
  latest_ = std::make_shared<Documents>(unpack(received_));
  received_ = {};
  const double took = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  fresh_until_ = holdfast_now() + seconds_kept(took, part_);
}

void Gatherer::give_up() {
  ::kill(child_, SIGKILL);
  received_.clear();
  finish();
}

}  // namespace holdfast::serve
