#include "inspect/ask_each.h"

#include <fcntl.h>
#include <fmt/format.h>
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
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "holdfast.h"
#include "inspect/descriptor.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "inspect/user_access.h"

namespace holdfast::inspect {

namespace {

constexpr std::size_t kLookersAtOnce = 8;
/// After this time, no more processes are started: a user with thousands of user ids may have thousands of directories.
constexpr double kStartSeconds = 60;
/// The maximum size of one answer. If all answers together are larger, no more processes are started.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr rlim_t kMostMemory = std::uint64_t{1} << 30;  // memory limit of one process
// The first byte that a process sends.
constexpr char kText = 't';
constexpr char kTrouble = '!';

// --- the child ---

void send_all(int pipe, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::write(pipe, bytes.data(), bytes.size());
    if (sent < 0 && errno != EINTR) ::_exit(1);
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
}

/// Limits a resource of this process. This is a template, because `resource` has a different type in some C libraries.
template <class Resource>
void limit(Resource resource, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(resource, &both);
}

/// Returns the size of this process's data, which is large with a sanitizer.
rlim_t own_memory() {
  constexpr int kData = 5;
  const auto pages = whole_number_of(field_of(read_whole("/proc/self/statm").value_or(""), kData));
  return pages.value_or(0) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Prepares this process to read the directory with the access rights of the directory's user. Returns an error
/// message, or an empty string on success.
std::string prepare(const UserDirectory& directory, pid_t parent) {
  limit(RLIMIT_DATA, own_memory() + kMostMemory);
  limit(RLIMIT_CORE, 0);
  const bool is_own = directory.user == ::geteuid();
  if (std::string wrong = look_as_user(directory.user); !wrong.empty()) return wrong;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the user would reset this
  if (::getppid() != parent) ::_exit(1);
  if (is_own) return {};
  ::setenv("HOLDFAST_DIR", directory.path.c_str(), 1);
  ::unsetenv("HOLDFAST_SHARE");
  ::unsetenv("HOLDFAST_OWNER");
  return {};
}

[[noreturn]] void look_in_child(const UserDirectory& directory, pid_t parent, int pipe, const Look& look) {
  std::string trouble;
  std::string text;
  try {
    trouble = prepare(directory, parent);
    if (trouble.empty()) text = look(directory);
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  send_all(pipe, (trouble.empty() ? kText : kTrouble) + (trouble.empty() ? text : trouble));
  ::_exit(0);
}

// --- the parent ---

struct Looker {
  Answer* answer;
  pid_t child;
  Descriptor pipe;
  double deadline;
  std::string received{};
  std::string trouble{};  // why the process must be ended; empty while it may continue
  bool is_over = false;
};

/// Starts a process. On failure, returns nothing, and stores the reason in the answer.
std::optional<Looker> start(const UserDirectory& directory, Answer& answer, double seconds, const Look& look) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    answer.trouble = fmt::format("cannot make a pipe: {}", std::strerror(errno));
    return std::nullopt;
  }
  Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) look_in_child(directory, parent, writing.get(), look);
  if (child < 0) {
    answer.trouble = fmt::format("cannot start a process: {}", std::strerror(errno));
    return std::nullopt;
  }
  return Looker{&answer, child, std::move(reading), holdfast_now() + seconds};
}

void receive(Looker& looker) {
  std::array<char, 65536> room;
  for (;;) {
    const ssize_t size = ::read(looker.pipe.get(), room.data(), room.size());
    if (size > 0) looker.received.append(room.data(), static_cast<std::size_t>(size));
    if (looker.received.size() > kMostBytes) looker.trouble = "there is too much to show";
    if (size == 0 || !looker.trouble.empty()) looker.is_over = true;
    if (looker.is_over || (size < 0 && errno != EINTR)) return;
  }
}

/// Waits for the end of a process that was killed or has sent everything. Does not wait for a process that the kernel
/// cannot end, for example because it reads a file system that never answers.
std::optional<int> status_of_child(pid_t child) {
  constexpr int kChecks = 100;
  constexpr useconds_t kPauseUs = 10'000;
  int status = 0;
  for (int check = 0; check < kChecks; ++check) {
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    ::usleep(check == 0 ? kPauseUs / 10 : kPauseUs);
  }
  return std::nullopt;
}

/// Moves the bytes that the process sent into its answer. Returns their number.
std::size_t finish(Looker& looker) {
  Answer& answer = *looker.answer;
  if (!looker.trouble.empty()) ::kill(looker.child, SIGKILL);
  const auto status = status_of_child(looker.child);
  const std::size_t size = looker.received.size();
  answer.trouble = looker.trouble;
  if (!answer.trouble.empty()) return 0;
  if (status && WIFSIGNALED(*status))
    answer.trouble = fmt::format("signal {} killed the process that read it", WTERMSIG(*status));
  else if (status != 0 || size == 0)
    answer.trouble = "the process that read it failed";
  else
    (looker.received.front() == kText ? answer.text : answer.trouble) = looker.received.substr(1);
  return size;
}

/// Waits until one of the processes has sent something or has used up its time, and reads everything that was sent.
void wait_for(std::vector<Looker>& lookers) {
  constexpr double kMilli = 1e3;
  double due = lookers.front().deadline;
  std::vector<pollfd> files;
  for (const Looker& looker : lookers) {
    files.push_back({looker.pipe.get(), POLLIN, 0});
    due = std::min(due, looker.deadline);
  }
  ::poll(files.data(), files.size(), static_cast<int>(std::max(0.0, due - holdfast_now()) * kMilli) + 1);
  for (std::size_t i = 0; i < lookers.size(); ++i) {
    Looker& looker = lookers[i];
    if ((files[i].revents & (POLLIN | POLLHUP)) != 0) receive(looker);
    if (looker.is_over || holdfast_now() < looker.deadline) continue;
    looker.trouble = "reading it took too long";
    looker.is_over = true;
  }
}

}  // namespace

std::vector<Answer> ask_each(const std::vector<UserDirectory>& directories, double seconds, const Look& look) {
  std::vector<Answer> answers(directories.size());
  std::vector<Looker> lookers;
  const double end = holdfast_now() + kStartSeconds;
  std::size_t bytes = 0;  // the size of all answers
  for (std::size_t next = 0; next < directories.size() || !lookers.empty();) {
    for (; next < directories.size() && lookers.size() < kLookersAtOnce; ++next) {
      Answer& answer = answers[next];
      if (holdfast_now() > end || bytes > kMostBytes)
        answer.trouble = "reading the others took too much time or memory";
      else if (auto looker = start(directories[next], answer, seconds, look))
        lookers.push_back(std::move(*looker));
    }
    if (!lookers.empty()) wait_for(lookers);
    for (Looker& looker : lookers)
      if (looker.is_over) bytes += finish(looker);
    std::erase_if(lookers, [](const Looker& looker) { return looker.is_over; });
  }
  return answers;
}

}  // namespace holdfast::inspect
