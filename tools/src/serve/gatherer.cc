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

/// Moves the next text from `from` to `text`. Returns false if the text is incomplete.
bool cut(std::string_view& from, std::string_view& text) {
  std::uint64_t size = 0;
  if (from.size() < sizeof size) return false;
  std::memcpy(&size, from.data(), sizeof size);
  if (from.size() - sizeof size < size) return false;
  text = from.substr(sizeof size, size);
  from.remove_prefix(sizeof size + size);
  return true;
}

void write_all(int pipe, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(pipe, bytes, size);
    if (written < 0 && errno != EINTR) ::_exit(1);
    bytes += std::max<ssize_t>(written, 0);
    size -= static_cast<std::size_t>(std::max<ssize_t>(written, 0));
  }
}

/// Writes the length and the bytes of a text.
void write_text(int pipe, const std::string& text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  write_all(pipe, reinterpret_cast<const char*>(&size), sizeof size);
  write_all(pipe, text.data(), text.size());
}

Texts failure(std::string sentence) { return {{"error", std::make_shared<const std::string>(std::move(sentence))}}; }

double seconds_of(const timeval& time) {
  constexpr double kMicro = 1e-6;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kMicro;
}

/// Gathers in the child, and writes the documents to the pipe.
[[noreturn]] void gather_in_child(const Gatherer::Gather& gather, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // Only the parent may keep the listening socket and the connections open.
  inspect::close_between(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1);
  inspect::close_between(static_cast<unsigned>(pipe) + 1, ~0U);
  Documents documents;
  try {
    documents = gather();
  } catch (const std::exception& error) {
    documents = {{"error", error.what()}};
  }
  for (const auto& [name, text] : documents) {
    write_text(pipe, name);
    write_text(pipe, text);
  }
  ::_exit(0);
}

}  // namespace

double seconds_kept(double took, double part) { return std::clamp(took / part, kKeep, kKeepMost); }

std::shared_ptr<const Texts> Gatherer::documents() {
  if (latest_ && holdfast_now() < fresh_until_) return latest_;
  if (child_ == 0) start();
  return child_ != 0 ? nullptr : latest_;
}

void Gatherer::start() {
  const auto fail = [this](const char* call) {
    latest_ = std::make_shared<Texts>(failure(std::string(call) + ": " + std::strerror(errno)));
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
  if (child == 0) gather_in_child(gather_, writing.get(), parent);
  child_ = child;
  deadline_ = holdfast_now() + timeout_;
  pipe_ = std::move(reading);
  received_ = {};
  coming_ = {};
}

/// Moves all complete documents out of the buffer, so that at most one document is in memory twice.
void Gatherer::take_whole() {
  std::string_view rest = received_;
  std::string_view name;
  std::string_view text;
  for (std::string_view from = rest; cut(from, name) && cut(from, text); rest = from)
    coming_[std::string(name)] = std::make_shared<const std::string>(text);
  if (rest.size() != received_.size()) received_ = std::string(rest);
}

bool Gatherer::read() {
  std::array<char, 65536> room;
  for (;;) {
    const ssize_t size = ::read(pipe_.get(), room.data(), room.size());
    if (size > 0) {
      received_.append(room.data(), static_cast<std::size_t>(size));
      take_whole();
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
  // If the process was ended early, it has sent nothing, or only a part of the documents.
  const bool whole = !coming_.empty() && received_.empty();
  latest_ = std::make_shared<Texts>(whole ? std::move(coming_)
                                          : failure("reading the runtime directory took too long or failed"));
  received_ = {};
  coming_ = {};
  took_ = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  fresh_until_ = holdfast_now() + seconds_kept(took_, part_);
}

void Gatherer::give_up() {
  ::kill(child_, SIGKILL);
  coming_ = {};
  finish();
}

}  // namespace holdfast::serve
