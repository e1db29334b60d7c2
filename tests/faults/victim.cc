#include "faults/victim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "faults/memory.h"
#include "world/process_table.h"

namespace holdfast::faults {

namespace {

using Clock = std::chrono::steady_clock;

/// The shared memory in which the victim and the judge report to the program.
struct Shared {
  AllocationPlan plan;
  char problem[600];
};

void tell(Shared& shared, const char* problem) { std::snprintf(shared.problem, sizeof shared.problem, "%s", problem); }

/// A process in its own process group, with a socket to this process. The destructor kills and reaps the process.
class Process {
 public:
  explicit Process(const std::function<void(int socket)>& body) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);
    }
    ::setpgid(pid_, pid_);
    ::close(ends[1]);
    socket_ = ends[0];
  }
  ~Process() {
    end();
    ::close(socket_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int socket() const { return socket_; }
  void go_on() const { ::send(socket_, "g", 1, MSG_NOSIGNAL); }
  /// Kills the process and its children, and reaps the process. Returns its exit status.
  int end() {
    if (!reaped_) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
      reaped_ = true;
    }
    return status_;
  }
  /// REQUIRES: the process has closed its socket.
  std::string how_it_ended() {
    ::usleep(20'000);  // the socket is closed a moment before the process becomes a zombie
    if (!reaped_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
    if (!reaped_) return "closed its socket";
    if (WIFSIGNALED(status_)) return std::string("was killed by ") + ::strsignal(WTERMSIG(status_));
    return "ended with status " + std::to_string(WEXITSTATUS(status_));
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

/// Sends a byte and waits for the answer. The victim, the neighbour and the judge call this function.
void report_and_wait(int socket) {
  char byte = 'r';
  while (::write(socket, &byte, 1) < 0 && errno == EINTR) {
  }
  while (::read(socket, &byte, 1) < 0 && errno == EINTR) {
  }
}

void be_victim(int socket, const Module& module, const Case& one, Shared& shared) {
  const Scenario& scenario = module.scenarios[one.scenario];
  const bool of_calls = one.kind == Kind::calls;
  const auto arm = [&] { of_calls ? arm_calls() : follow(&shared.plan); };
  const auto disarm = [&] { of_calls ? disarm_calls() : follow(nullptr); };
  if (of_calls && ask_about_calls(socket) != 0) return tell(shared, "seccomp refuses notifications");
  module.prepare(scenario, one.mutex, !of_calls);
  report_and_wait(socket);
  arm();
  scenario.act();
  disarm();
  tell(shared, scenario.settle());
  report_and_wait(socket);
  if (!scenario.ends_armed) ::pause();
  arm();
  std::exit(0);
}

/// Returns the names of the process's open descriptors, and of the files in the directory that it has mapped, each
/// once. All sockets have the same name, and so do all pipes.
std::vector<std::string> kept_by(pid_t pid, const std::string& directory) {
  std::vector<std::string> names;
  std::map<std::string, std::string> listed;  // by inode
  std::map<std::string, std::string> mapped;  // by inode
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) == 0) listed[std::to_string(status.st_ino)] = entry.path().filename();
  }
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(directory + "/");
    if (at == std::string::npos) continue;
    std::string addresses, rights, offset, device, inode;
    std::istringstream(line) >> addresses >> rights >> offset >> device >> inode;
    // The kernel shows a number for a file that the process created but has not named yet.
    const auto known = listed.find(inode);
    const std::string name = known != listed.end() ? known->second : line.substr(at + directory.size() + 1);
    const bool is_dictionary = name.starts_with('#') || name.find(".dict") != std::string::npos;
    mapped[inode] = is_dictionary ? "mapped dictionary" : "mapped " + name;
  }
  for (const auto& [inode, name] : mapped) names.push_back(name);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored)) {
    const std::string name = std::filesystem::read_symlink(entry.path(), ignored);
    names.push_back(name.substr(name.rfind('/') + 1, name.find('[') - name.rfind('/') - 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the number of used slots of the process table.
int count_slots(const std::string& table) {
  const int fd = ::open(table.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  int count = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = static_cast<off_t>(kSlotLocks + slot);
    lock.l_len = 1;
    if (::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) ++count;
  }
  ::close(fd);
  return count;
}

/// Returns the name of a file that should not exist, or "".
std::string strange_file(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name != "processes" && !name.ends_with(".dict") && !name.starts_with("names-")) return name;
  }
  return "";
}

class Run {
 public:
  Run(const Module& module, const Case& one, double limit_seconds)
      : module_(module),
        scenario_(module.scenarios[one.scenario]),
        one_(one),
        deadline_(Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(limit_seconds * 1e6))),
        shared_(*new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    Shared{}) {
    if (::mkdtemp(directory_) == nullptr) std::abort();
    ::setenv("HOLDFAST_DIR", directory_, 1);
    shared_.plan.first = one.kind == Kind::allocations ? one.first : 0;
    shared_.plan.from_then_on = one.from_then_on;
  }
  ~Run() {
    victim_.reset();
    neighbour_.reset();
    judge_.reset();
    if (listener_ >= 0) ::close(listener_);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    ::munmap(&shared_, sizeof(Shared));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Outcome run() {
    Outcome outcome;
    outcome.problem = problem(outcome);
    outcome.counted = shared_.plan.all.load();
    outcome.failed = shared_.plan.failed.load();
    if (outcome.failed != 0) outcome.first_failed = "an allocation of " + std::to_string(shared_.plan.bytes) + " bytes";
    if (calls_) {
      outcome.calls = calls_->calls();
      outcome.counted = outcome.calls.size();
      outcome.failed = calls_->failed().size();
      if (outcome.failed != 0)
        outcome.first_failed =
            std::string(calls_->failed()[0].name) + " with " + ::strerrorname_np(calls_->failed()[0].error);
    }
    return outcome;
  }

 private:
  std::string problem(Outcome& outcome) {
    if (scenario_.neighbour != Neighbour::none && !start_neighbour()) return "the neighbour could not take its locks";
    victim_ = std::make_unique<Process>([this](int socket) { be_victim(socket, module_, one_, shared_); });
    if (one_.kind == Kind::calls && !get_listener()) return "seccomp notifications are not possible";
    if (std::string wrong = wait_for(*victim_, "before anything fails"); !wrong.empty()) return wrong;
    if (scenario_.neighbour == Neighbour::dead) neighbour_->end();
    victim_->go_on();
    if (std::string wrong = wait_for(*victim_, "while something fails, or after"); !wrong.empty()) return wrong;
    if (shared_.problem[0] != '\0') return std::string("afterwards: ") + shared_.problem;
    outcome.kept = kept_by(victim_->pid(), directory_);
    if (std::string wrong = check_files(); !wrong.empty()) return wrong;
    if (scenario_.ends_armed) return end_victim_by_itself();
    return judge_during_and_after();
  }

  bool start_neighbour() {
    neighbour_ = std::make_unique<Process>([this](int socket) {
      if (module_.hold_things() != nullptr) report_and_wait(socket);
    });
    return wait_for(*neighbour_, "as it begins").empty();
  }

  bool get_listener() {
    pollfd waiting{victim_->socket(), POLLIN, 0};
    if (::poll(&waiting, 1, 5000) <= 0) return false;
    listener_ = receive_descriptor(victim_->socket());
    if (listener_ < 0) return false;
    calls_ = std::make_unique<CallJudge>(listener_, one_.first, one_.from_then_on, one_.other);
    return true;
  }

  std::string check_files() const {
    const int expected = scenario_.neighbour == Neighbour::alive ? 2 : 1;
    const int slots = count_slots(std::string(directory_) + "/processes");
    if (slots != expected)
      return std::to_string(slots) + " slots of the process table are taken, by " + std::to_string(expected) +
             " processes";
    const std::string strange = strange_file(directory_);
    return strange.empty() ? "" : "a file was left behind: " + strange;
  }

  std::string judge_during_and_after() {
    judge_ = std::make_unique<Process>([this](int socket) {
      tell(shared_, module_.judge_during_victim(scenario_.neighbour));
      report_and_wait(socket);
      tell(shared_, module_.judge_after_victim(scenario_.neighbour));
      report_and_wait(socket);
    });
    if (std::string wrong = wait_for(*judge_, "as a judge"); !wrong.empty()) return wrong;
    if (shared_.problem[0] != '\0') return std::string("in another process: ") + shared_.problem;
    victim_->end();
    judge_->go_on();
    return verdict_after();
  }

  std::string end_victim_by_itself() {
    victim_->go_on();
    if (const std::string wrong = wait_for(*victim_, "at its end");
        wrong != "the victim ended with status 0 at its end")
      return wrong.empty() ? "the victim did not end" : wrong;
    judge_ = std::make_unique<Process>([this](int socket) {
      tell(shared_, module_.judge_after_victim(scenario_.neighbour));
      report_and_wait(socket);
    });
    return verdict_after();
  }

  std::string verdict_after() {
    if (std::string wrong = wait_for(*judge_, "as a judge"); !wrong.empty()) return wrong;
    return shared_.problem[0] == '\0' ? "" : std::string("after the victim's end: ") + shared_.problem;
  }

  /// Answers questions about the victim's calls until the process reports. Returns "" or an error.
  std::string wait_for(Process& process, const char* when) {
    const std::string name = &process == victim_.get() ? "the victim " : "another process ";
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) return name + "did not report in time, " + when;
      pollfd waiting[] = {{process.socket(), POLLIN, 0}, {calls_ ? listener_ : -1, POLLIN, 0}};
      if (::poll(waiting, 2, static_cast<int>(left)) <= 0) continue;
      if ((waiting[1].revents & POLLIN) != 0) calls_->answer();
      if (waiting[0].revents == 0) {
        if ((waiting[1].revents & POLLHUP) != 0) ::usleep(1000);
        continue;
      }
      char byte = 0;
      if (::recv(process.socket(), &byte, 1, 0) == 1) return "";
      return name + process.how_it_ended() + " " + when;
    }
  }

  const Module& module_;
  const Scenario& scenario_;
  const Case one_;
  const Clock::time_point deadline_;
  Shared& shared_;
  char directory_[32] = "/dev/shm/hf-faults-XXXXXX";
  std::unique_ptr<Process> neighbour_;
  std::unique_ptr<Process> victim_;
  std::unique_ptr<Process> judge_;
  int listener_ = -1;
  std::unique_ptr<CallJudge> calls_;
};

}  // namespace

Outcome run_case(const Module& module, const Case& one, double limit_seconds) {
  return Run(module, one, limit_seconds).run();
}

const Module* load_module() {
  void* const handle = ::dlopen(FAULTS_MODULE, RTLD_NOW | RTLD_LOCAL);
  const void* const found = handle != nullptr ? ::dlsym(handle, kModuleSymbol) : nullptr;
  if (found == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  return static_cast<const Module*>(found);
}

}  // namespace holdfast::faults
