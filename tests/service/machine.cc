#include "service/machine.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "holdfast.h"
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

std::string take(Dict& dict, const std::string& key, double seconds, holdfast_lease& lease) {
  Waiting waiting;
  const int code = waiting.lock(dict, key, seconds, &lease);
  return code == HOLDFAST_OK ? "ok " + std::to_string(lease.sequence) : holdfast_code_text(code);
}

std::string obey(Dict& dict, std::map<std::string, holdfast_lease>& leases, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string key;
  double number = 0;
  words >> command >> key >> number;
  holdfast_lease& lease = leases[key];
  if (command == "lock") return take(dict, key, number, lease);
  if (command == "try") return holdfast_code_text(dict.try_lock(key, 0, &lease));
  if (command == "unlock") return holdfast_code_text(dict.unlock(key, &lease));
  if (command == "valid") return dict.remaining(key, lease) > 0 ? "ok" : "not owner";
  if (command == "confirm")
    return holdfast_code_text(holdfast_lock_verify(dict.handle, key.data(), key.size(), &lease, 20));
  if (command == "verify") return answer_to(dict, HOLDFAST_ASK_VERIFY, key, 0);
  if (command == "holder") return answer_to(dict, HOLDFAST_ASK_HOLDER, key, 0);
  if (command == "break") return answer_to(dict, HOLDFAST_ASK_BREAK, key, static_cast<std::uint64_t>(number));
  return "unknown command";
}

}  // namespace

Program::Program(const std::string& directory)
    : child_([&directory](Channel& parent) {
        ::setenv("HOLDFAST_DIR", directory.c_str(), 1);
        Dict dict(kJobs, {.size = 1 << 20, .cluster = kCluster});
        if (dict.status != HOLDFAST_OK) return 1;
        std::map<std::string, holdfast_lease> leases;
        for (std::string line = parent.hear(); line != "(end)"; line = parent.hear())
          if (line != "(silence)") parent.say(obey(dict, leases, line));
        return 0;
      }) {}

std::uint64_t Program::lock(const std::string& key, double seconds) {
  const std::string said = ask("lock " + key + " " + std::to_string(seconds));
  return said.starts_with("ok ") ? std::stoull(said.substr(3)) : 0;
}

std::unique_ptr<Child> Machine::another_agent() const {
  return std::make_unique<Child>([this](Channel&) {
    ::setenv("HOLDFAST_DIR", directory_.path().c_str(), 1);
    ::execl(HOLDFAST_AGENT_PROGRAM, "holdfast-agent", kCluster, "--etcd", etcd_.c_str(), "--ttl",
            std::to_string(ttl_s_).c_str(), nullptr);
    return 127;
  });
}

}  // namespace holdfast::test
