#include "inspect/health.h"

#include <algorithm>
#include <utility>

#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

/// Returns whether the process table has a different layout. The check of files then reports this, with the processes
/// that use the table.
bool is_of_another_layout(const WorldSnapshot& snapshot) {
  return std::any_of(snapshot.files.begin(), snapshot.files.end(), [](const WorldFile& file) {
    return file.kind == WorldFile::Kind::processes && !file.has_our_layout();
  });
}

Finding why_not_observed(const WorldSnapshot& snapshot, const Status& why, bool must_exist) {
  if (!is_unused_yet(why) || must_exist) return finding_of(Severity::error, "", why.message);
  return {Severity::note, "", std::string(kUnusedYet) + " (" + snapshot.directory + ")", kOtherWays};
}

/// Drops a finding about the world if another finding reports the file that causes the problem.
void drop_what_files_report(const WorldSnapshot& snapshot, Findings& findings) {
  const bool is_reported = std::any_of(findings.begin(), findings.end(), [](const Finding& one) {
    return one.severity == Severity::error && one.subject == kProcessTable;
  });
  const std::string begin = snapshot.directory + "/" + kProcessTable + " ";
  if (is_reported)
    std::erase_if(findings, [&](const Finding& one) { return one.subject.empty() && one.sentence.starts_with(begin); });
}

}  // namespace

WorldSnapshot gather(const LookAtOpeners& openers, bool must_exist, Findings& findings) {
  WorldSnapshot snapshot;
  auto observed = observe();
  snapshot.directory = observed ? *observed : directory_to_be();
  auto files = read_files(snapshot.directory);
  if (files) snapshot.files = std::move(*files);
  snapshot.openers = openers(snapshot.directory);
  if (!observed) {
    if (!is_unused_yet(observed.status())) snapshot.trouble = observed.status().message;
    if (!is_of_another_layout(snapshot)) findings.push_back(why_not_observed(snapshot, observed.status(), must_exist));
    return snapshot;
  }
  auto dictionaries = look_at_dictionaries(snapshot.directory, {});
  auto processes = Processes::read();  // read last, so that new processes' dictionaries are not reported as unused
  if (!processes || !dictionaries) {
    const Status& why = processes ? dictionaries.status() : processes.status();
    findings.push_back(finding_of(Severity::error, "", why.message));
    snapshot.trouble = why.message;
    return snapshot;
  }
  snapshot.processes = std::move(*processes);
  snapshot.dictionaries = std::move(*dictionaries);
  // If a dictionary has disappeared with its last process, it was not left behind.
  std::erase_if(snapshot.dictionaries,
                [&](const Dictionary& one) { return was_removed_since(snapshot.directory, one); });
  snapshot.entered = true;
  return snapshot;
}

Finding finding_of(Severity severity, const std::string& subject, const std::string& sentence) {
  const std::size_t at = sentence.rfind("; ");
  if (at == std::string::npos) return {severity, subject, sentence, ""};
  return {severity, subject, sentence.substr(0, at), sentence.substr(at + 2)};
}

Findings check_health(WorldSnapshot& snapshot, const Limits& limits, Findings findings) {
  if (!snapshot.files.empty()) check_files(snapshot, findings);
  drop_what_files_report(snapshot, findings);
  check_room(snapshot, findings);
  if (snapshot.entered) {
    check_processes(snapshot, findings);
    for (const Dictionary& dictionary : snapshot.dictionaries) check_dictionary(dictionary, snapshot, findings);
    check_waits(snapshot, limits, findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& one, const Finding& other) { return one.severity > other.severity; });
  return findings;
}

Severity worst_of(const Findings& findings) noexcept {
  return findings.empty() ? Severity::note : findings.front().severity;
}

}  // namespace holdfast::inspect
