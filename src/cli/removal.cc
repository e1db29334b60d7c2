#include "cli/removal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
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

/// What the function says, called in a child: a process that looks at a world cannot change it afterwards.
std::string said_by_child(const std::function<std::string()>& say_it) {
  constexpr const char* kFailed = "the look at its locks did not come to its end";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return kFailed;
  const inspect::Descriptor reading(ends[0]);
  inspect::Descriptor writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return kFailed;
  if (child == 0) {
    const std::string text = say_it();
    const auto size = static_cast<ssize_t>(text.size());
    ::_exit(::write(writing.get(), text.data(), text.size()) == size ? 0 : 1);
  }
  writing.reset();
  std::string text;
  std::array<char, 1024> part{};
  ssize_t got = 0;
  while ((got = ::read(reading.get(), part.data(), part.size())) > 0 || (got < 0 && errno == EINTR))
    text.append(part.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : kFailed;
}

/// The first living process that holds something in it. The processes are read after the locks.
std::string living_holder(const std::vector<inspect::Lock>& locks) {
  if (locks.empty()) return {};
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status().message;
  for (const inspect::Lock& lock : locks) {
    if (const holdfast_holder* const holder = inspect::living_holder(lock, *processes))
      return fmt::format("{} holds {} in it", inspect::in_words(processes->of(holder->owner)), quote(lock.key));
    if (const std::string trouble = inspect::trouble_of_holders(lock); !trouble.empty())
      return fmt::format("it cannot be told whether {} is held: {}", quote(lock.key), trouble);
  }
  return {};
}

/// Why nobody may end its locks. In a process that only looks.
std::string objection_of_holders(const std::string& name) {
  auto directory = inspect::observe();
  if (!directory) return {};  // to enter the world tells why, or finds it empty
  auto dict = inspect::attach(name);
  if (!dict && dict.status().code == Code::not_found) return {};
  // As for the library: without a use, what such a file says of processes means nothing.
  if (!dict && inspect::is_of_another_world(*directory, name)) return {};
  if (!dict) return "its locks cannot be listed: " + dict.status().message;
  for (inspect::LockScan scan(*dict, name, ""); !scan.done();) {
    std::vector<inspect::Lock> locks;
    const Status looked = scan.next(inspect::Which::all, SIZE_MAX, locks);
    if (looked.code == Code::removed) return {};
    if (!looked.ok()) return "its locks cannot be listed: " + looked.message;
    if (std::string living = living_holder(locks); !living.empty()) return living;
  }
  return {};
}

/// The processes that have it open: those of the world, else all that are seen.
std::vector<inspect::Opener> users_of(const inspect::Dictionary& dictionary, const inspect::Openers& of_world,
                                      const WorldOptions& world, const std::string& directory,
                                      const inspect::Processes& processes) {
  std::vector<inspect::Opener> users = inspect::openers_of(dictionary, of_world, processes);
  if (users.empty())
    users = inspect::openers_of(dictionary, world.openers(directory, inspect::all_pids(), kLookForUsers), processes);
  for (inspect::Opener& user : users)
    if (const auto stat = user.program.empty() ? inspect::read_stat(user.pid) : std::nullopt)
      user.program = stat->program;
  return users;
}

}  // namespace

Candidate judge_removal(const std::string& name) {
  Candidate candidate{name, inspect::take_sole_use(inspect::directory_to_be(), name), ""};
  if (!candidate.use.trouble.empty())
    candidate.objection = "it cannot be told whether a process has it open: " + candidate.use.trouble;
  else if (!candidate.use.is_used)
    candidate.objection = said_by_child([&] { return objection_of_holders(name); });
  return candidate;
}

std::string use_in_words(const WorldOptions& world, const std::string& directory, const std::string& name) {
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status().message;
  inspect::Dictionary dictionary;
  dictionary.file = inspect::read_dictionary_file(directory, name, inspect::Read::status);
  const inspect::Openers of_world = world.openers(directory, processes->pids(), kLookForUsers);
  const std::vector<inspect::Opener> users = users_of(dictionary, of_world, world, directory, *processes);
  if (!users.empty())
    return fmt::format("{} it open: pid {} ({}){}", inspect::counted(users.size(), "process has", "processes have"),
                       users.front().pid, inspect::escaped(users.front().program),
                       users.size() > 1 ? " and others" : "");
  const std::vector<const inspect::Process*> living = processes->living();
  const auto is_unseen = [](const inspect::Process* process) { return process->pid_here == 0; };
  if (const auto unseen = std::find_if(living.begin(), living.end(), is_unseen); unseen != living.end())
    return fmt::format("it cannot be told whether {} has it open, which is in another pid namespace",
                       inspect::in_words(**unseen));
  if (!of_world.complete())
    return "it cannot be told whether a process has it open, as this user may not look at all of them";
  return "a process that is not seen from here has it open";
}

}  // namespace holdfast::cli
