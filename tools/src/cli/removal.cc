#include "cli/removal.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/name.h"
#include "inspect/descriptor.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

constexpr double kLookForUsers = 5;
constexpr std::size_t kAnswerMost = 4096;
/// The first byte of the judge's answer. Without this prefix, the answer "no objection" would be an empty packet, which
/// means end of file.
constexpr const char* kJudged = "=";

/// Describes the first lock that a living process holds or may hold. Returns an empty string if there is none. Reads
/// the processes after the locks, so that no holder is missing.
std::string living_holder(const std::vector<inspect::Lock>& locks) {
  if (locks.empty()) return {};
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status().message;
  for (const inspect::Lock& lock : locks) {
    if (const holdfast_holder* const holder = inspect::living_holder(lock, *processes))
      return fmt::format("{} holds {} in it", inspect::in_words(processes->of(holder->owner)), quote_whole(lock.key));
    if (const std::string trouble = inspect::trouble_of_holders(lock); !trouble.empty())
      return fmt::format("cannot tell whether {} is held ({})", quote_whole(lock.key), trouble);
  }
  return {};
}

/// Returns why the dictionary's locks must not be ended. Runs in the judge's child, which only reads the world.
std::string objection_of_holders(const std::string& name) {
  auto directory = inspect::observe();
  if (!directory) return directory.status().message;
  auto dict = inspect::attach(name);
  if (!dict && dict.status().code == Code::not_found) return {};
  // As in the library, holders do not count if nobody uses the dictionary and its file comes from another world.
  if (!dict && inspect::is_of_another_world(*directory, name)) return {};
  if (!dict) return "cannot list its locks: " + dict.status().message;
  for (inspect::LockScan scan(*dict, name, ""); !scan.done();) {
    std::vector<inspect::Lock> locks;
    const Status looked = scan.next(inspect::Which::all, SIZE_MAX, locks);
    if (looked.code == Code::removed) return {};
    if (!looked.ok()) return "cannot list its locks: " + looked.message;
    if (std::string living = living_holder(locks); !living.empty()) return living;
  }
  return {};
}

/// Returns a text that names the processes, or an empty string if there are none.
std::string openers_in_words(std::vector<inspect::Opener> openers) {
  if (openers.empty()) return {};
  inspect::Opener& first = openers.front();
  if (const auto stat = first.program.empty() ? inspect::read_stat(first.pid) : std::nullopt)
    first.program = stat->program;
  return fmt::format("{} it open: pid {} ({}){}", inspect::counted(openers.size(), "process has", "processes have"),
                     first.pid, inspect::escaped(first.program), openers.size() > 1 ? " and others" : "");
}

}  // namespace

HolderJudge::HolderJudge() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  channel_ = inspect::Descriptor(ends[0]);
  inspect::Descriptor other(ends[1]);
  child_ = ::fork();
  if (child_ != 0) return;
  channel_.reset();
  std::array<char, HOLDFAST_KEY_MAX> name{};
  for (ssize_t size = 0; (size = ::recv(other.get(), name.data(), name.size(), 0)) > 0;) {
    const std::string text = kJudged + objection_of_holders({name.data(), static_cast<std::size_t>(size)});
    ::send(other.get(), text.data(), std::min(text.size(), kAnswerMost), MSG_NOSIGNAL);
  }
  ::_exit(0);
}

HolderJudge::~HolderJudge() {
  channel_.reset();
  if (child_ > 0) ::waitpid(child_, nullptr, 0);
}

std::string HolderJudge::objection(const std::string& name) const {
  constexpr const char* kFailed = "the process that checks its locks has died";
  std::array<char, kAnswerMost> text{};
  if (child_ <= 0 || ::send(channel_.get(), name.data(), name.size(), MSG_NOSIGNAL) < 0) return kFailed;
  ssize_t size = 0;
  do size = ::recv(channel_.get(), text.data(), text.size(), 0);
  while (size < 0 && errno == EINTR);
  return size > 0 ? std::string(text.data() + 1, static_cast<std::size_t>(size - 1)) : kFailed;
}

Candidate judge_removal(const std::string& name, const HolderJudge& judge) {
  Candidate candidate{.name = name, .use = inspect::take_sole_use(inspect::directory_to_be(), name)};
  if (!candidate.use.trouble.empty())
    candidate.objection = "cannot tell whether a process has it open: " + candidate.use.trouble;
  else if (!candidate.use.is_used)
    candidate.objection = judge.objection(name);
  return candidate;
}

std::string use_in_words(const WorldOptions& world, const std::string& directory, const std::string& name,
                         const HolderJudge& judge) {
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status().message;
  inspect::Dictionary dictionary;
  dictionary.file = inspect::read_dictionary_file(directory, name, inspect::Read::status);
  const inspect::Openers of_world = world.openers(directory, processes->pids(), kLookForUsers);
  std::string users = openers_in_words(inspect::openers_of(dictionary, of_world, *processes));
  if (!users.empty()) return users;
  // Search for users before asking the judge, which opens the dictionary itself. But prefer to report a held lock: the
  // processes that have the dictionary open may only be the wrapper and the guard of `holdfast lock`.
  users = openers_in_words(
      inspect::openers_of(dictionary, world.openers(directory, inspect::all_pids(), kLookForUsers), *processes));
  const std::string objection = judge.objection(name);
  if (!objection.empty()) return objection;
  if (!users.empty()) return users;
  const std::vector<const inspect::Process*> living = processes->living();
  const auto is_unseen = [](const inspect::Process* process) { return process->pid_here == 0; };
  if (const auto unseen = std::find_if(living.begin(), living.end(), is_unseen); unseen != living.end())
    return fmt::format("cannot tell whether {} has it open: that process is in another pid namespace",
                       inspect::in_words(**unseen));
  if (!of_world.complete()) return "cannot tell whether a process has it open: this user may not inspect all processes";
  return "a process that is not visible from here has it open";
}

}  // namespace holdfast::cli
