#include "service/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "etcd/etcd_server.h"
#include "holdfast.h"
#include "platform/platform.h"
#include "support/dict.h"
#include "support/waiting.h"

namespace holdfast::test {

namespace {

std::string answer_to(Dict& dict, int question, const std::string& key, std::uint64_t revision) {
  int fd = -1;
  int code = holdfast_ask(dict.handle, question, key.data(), key.size(), revision, &fd);
  std::string text(HOLDFAST_ANSWER_MAX, '\0');
  std::size_t size = text.size();
  if (code == HOLDFAST_OK) {
    pollfd one{fd, POLLIN, 0};
    ::poll(&one, 1, 20'000);
    code = holdfast_answer(fd, text.data(), &size);
  }
  if (code != HOLDFAST_OK) return std::string(holdfast_code_text(code)) + ": " + holdfast_error();
  text.resize(size);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string outcome(int code, const holdfast_lease& lease) {
  if (code != HOLDFAST_OK) return holdfast_code_text(code);
  return "ok " + std::to_string(lease.sequence) + " " + std::to_string(platform::boottime_ns());
}

/// A program with its dictionary and its locks.
class Obedient {
 public:
  Obedient() : dict_(kJobs, {.size = 16 << 20, .cluster = kCluster}) {}

  bool is_ready() const { return dict_.status == HOLDFAST_OK; }

  std::string obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string key;
    double number = 0;
    words >> command >> key >> number;
    if (command == "take") return std::to_string(take(std::stoi(key), static_cast<int>(number)));
    if (command == "keep") return std::to_string(keep(std::stoi(key)));
    holdfast_lease& lease = leases_[key];
    if (command == "lock") return outcome(Waiting().lock(dict_, key, number, &lease), lease);
    if (command == "block") return outcome(block(key, number, lease), lease);
    if (command == "state") return state();
    if (command == "try") return outcome(dict_.try_lock(key, 0, &lease), lease);
    if (command == "unlock") return holdfast_code_text(dict_.unlock(key, &lease));
    if (command == "valid") return has(key) ? "ok" : "not owner";
    if (command == "lose") return lose(key);
    if (command == "renew") return renew(key);
    if (command == "confirm")
      return holdfast_code_text(holdfast_lock_verify(dict_.handle, key.data(), key.size(), &lease, 20));
    if (command == "verify") return answer_to(dict_, HOLDFAST_ASK_VERIFY, key, 0);
    if (command == "holder") return answer_to(dict_, HOLDFAST_ASK_HOLDER, key, 0);
    if (command == "break") return answer_to(dict_, HOLDFAST_ASK_BREAK, key, static_cast<std::uint64_t>(number));
    return "unknown command";
  }

 private:
  int block(const std::string& key, double seconds, holdfast_lease& lease) {
    holdfast_lease got{};
    const int code = holdfast_lock(dict_.handle, key.data(), key.size(), seconds, 0, &got);
    if (code == HOLDFAST_OK) lease = got;
    return code;
  }

  std::string state() {
    holdfast_cluster state{};
    return holdfast_cluster_state(dict_.handle, &state) == HOLDFAST_OK ? "ok" : holdfast_error();
  }

  bool has(const std::string& key) { return dict_.remaining(key, leases_[key]) > 0; }

  /// Polls until the lock is lost. Reports the time immediately before the first poll that finds the loss.
  std::string lose(const std::string& key) {
    std::uint64_t looked = 0;
    const bool is_lost = eventually([&] {
      looked = platform::boottime_ns();
      return !has(key);
    });
    return is_lost ? "lost " + std::to_string(looked) : "the lock stays valid";
  }

  std::string renew(const std::string& key) {
    double least = dict_.remaining(key, leases_[key]);
    const bool is_renewed = eventually([&] {
      const double left = dict_.remaining(key, leases_[key]);
      const bool is_more = left > least;
      least = std::min(least, left);
      return is_more;
    });
    return is_renewed ? "ok" : "the session is not extended";
  }

  /// Waits for all locks concurrently, with one waiter for each lock.
  int take(int count, int from) {
    std::vector<std::unique_ptr<Waiting>> waiting;
    int got = 0;
    for (int first = from; first < from + count; first += kAtOnce) {
      const int last = std::min(first + kAtOnce, from + count);
      const double end = now() + kPatienceSeconds;
      std::vector<int> left;
      for (int i = first; i < last; ++i) left.push_back(i);
      while (!left.empty() && now() < end) {
        std::erase_if(left, [&](int i) {
          while (waiting.size() <= static_cast<std::size_t>(i - first)) waiting.push_back(std::make_unique<Waiting>());
          const std::string key = std::to_string(i);
          return waiting[static_cast<std::size_t>(i - first)]->once(dict_, key, &leases_[key]) == HOLDFAST_OK;
        });
        if (!left.empty()) sleep_ms(2);
      }
      got += last - first - static_cast<int>(left.size());
    }
    return got;
  }

  int keep(int count) {
    int kept = 0;
    for (int i = 0; i < count; ++i) kept += has(std::to_string(i)) ? 1 : 0;
    return kept;
  }

  static constexpr int kAtOnce = 100;
  static constexpr double kPatienceSeconds = 40;

  Dict dict_;
  std::map<std::string, holdfast_lease> leases_;
};

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Writes a configuration such as {"endpoints": ["http://a", "http://b"], ...}.
void write_config(const std::string& path, std::string etcd, int ttl_s, const Fields& fields) {
  for (std::size_t at = 0; (at = etcd.find(',', at)) != std::string::npos; at += 3) etcd.replace(at, 1, "\",\"");
  std::ofstream file(path);
  file << "{\"endpoints\": [\"" << etcd << "\"], \"ttl\": " << ttl_s << ", \"namespace\": \"" << kSpace << "\"";
  for (const auto& [name, value] : fields) file << ", \"" << name << "\": " << value;
  file << "}";
  file.close();
  ::chmod(path.c_str(), 0640);
}

}  // namespace

Program::Program(const std::string& directory, const std::string& clock)
    : child_([&](Channel& parent) {
        ::setenv("HOLDFAST_DIR", directory.c_str(), 1);
        if (!clock.empty()) use_clock(clock);
        Obedient program;
        if (!program.is_ready()) return 1;
        for (std::string line = parent.hear(); line != "(end)"; line = parent.hear())
          if (line != "(silence)") parent.say(program.obey(line));
        return 0;
      }) {}

std::uint64_t Program::lock(const std::string& key, double seconds) {
  const std::string said = ask("lock " + key + " " + std::to_string(seconds));
  return said.starts_with("ok ") ? std::stoull(said.substr(3)) : 0;
}

Machine::Machine(const std::string& etcd, int ttl_s, const Fields& fields) : clock_(new_clock(clock_file())) {
  ::mkdir(directory().c_str(), 0700);
  write_config(scratch_ / "main.json", etcd, ttl_s, fields);
}

std::unique_ptr<Child> Machine::another_agent() const {
  return std::make_unique<Child>([this](Channel&) {
    ::setenv("HOLDFAST_DIR", directory().c_str(), 1);
    ::setenv(kClockFile, clock_file().c_str(), 1);
    ::setenv("LD_PRELOAD", HOLDFAST_LEAPING_CLOCK, 1);
    const int log = ::open((scratch_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(log, STDERR_FILENO);
    ::execl(HOLDFAST_AGENT_PROGRAM, "holdfast-agent", kCluster, "--config", (scratch_ / "main.json").c_str(), nullptr);
    return 127;
  });
}

std::string Machine::said() const { return read_file(scratch_ / "log"); }

bool Machine::has_said(const std::string& part) const { return said().find(part) != std::string::npos; }

std::unique_ptr<Program> Machine::new_program() const { return std::make_unique<Program>(directory(), clock_file()); }

std::uint64_t Peer::hold(const std::string& key) {
  const std::uint64_t token = lock(key);
  if (token == 0) throw std::runtime_error("cannot get lock \"" + key + "\"; the agent has said:\n" + said());
  return token;
}

std::pair<std::string, int> run_command(const Machine& machine, const std::string& arguments) {
  const std::string command =
      "HOLDFAST_DIR=" + machine.directory() + " " + HOLDFAST_COMMAND + " " + arguments + " 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::string text;
  for (char chunk[512]; pipe != nullptr && std::fgets(chunk, sizeof chunk, pipe) != nullptr;) text += chunk;
  const int status = pipe != nullptr ? ::pclose(pipe) : -1;
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

bool is_queued(EtcdServer& etcd, const std::string& key, std::size_t machines) {
  const std::string places = std::string(kSpace) + "/q/" + kJobs + "/" + key + "/";
  return eventually([&] { return etcd.count(places) >= machines; });
}

}  // namespace holdfast::test
