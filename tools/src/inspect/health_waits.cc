#include <fmt/format.h>

#include "inspect/ancestors.h"
#include "inspect/health.h"
#include "inspect/text.h"
#include "inspect/waits.h"

namespace holdfast::inspect {

namespace {

constexpr std::size_t kMostLocks = 10000;
constexpr std::size_t kMostFindings = 10;

std::string in_words(const Lock& lock) { return escaped(lock.dictionary) + " " + escaped(lock.key); }

}  // namespace

// Only where each waits for the end of a command that it started: processes of many tasks may go on.
void check_waits(Patient& patient, Findings& findings) {
  std::vector<Lock> locks;
  for (const Dictionary& dictionary : patient.dictionaries)
    if (dictionary.trouble.empty())
      static_cast<void>(gather_locks(dictionary.handle, dictionary.name, "", Which::waited_for, kMostLocks, locks));
  drop_dead_waiters(locks, patient.processes);
  const Ancestors ancestors = ancestors_of_waiters(locks, patient.processes);
  std::size_t found = 0;
  const WaitLine* waiting = nullptr;  // the line above
  const std::vector<WaitLine> lines = lines_of_waits(locks, ancestors);
  for (const WaitLine& line : lines) {
    if (line.what == WaitLine::What::waiter) waiting = &line;
    if (line.what != WaitLine::What::circle || !line.is_of_commands || ++found > kMostFindings) continue;
    findings.push_back(
        {Severity::warning, "",
         fmt::format("commands wait for each other: {} waits for {}, and what started it holds {}",
                     in_words(patient.processes.of(line.waiter->owner)), in_words(*waiting->lock),
                     in_words(*line.lock)),
         "end one of them (\"holdfast locks --waiting\" shows all), and take such locks in the same order everywhere"});
  }
}

}  // namespace holdfast::inspect
