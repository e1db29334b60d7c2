#include "inspect/diagnosis.h"

#include <algorithm>
#include <utility>

#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

/// Then the look at the files says so, and which processes use it.
bool is_of_another_layout(const Patient& patient) {
  return std::any_of(patient.files.begin(), patient.files.end(), [](const WorldFile& file) {
    return file.kind == WorldFile::Kind::processes && !file.has_our_layout();
  });
}

/// Before the first process there is no world in the directory of the user: all is well. One that was named should be
/// there.
Finding why_not_observed(const Patient& patient, const Status& why) {
  if (why.code != Code::not_found || !is_default_directory()) return finding_of(Severity::error, "", why.message);
  return {Severity::note, "",
          "there is no world in " + patient.directory + ": no process of this user has used one since the last boot",
          "name another directory by --dir, or another user by --user"};
}

/// What stands in the way of a look at the world, where the file that is the reason has a finding of its own.
void drop_what_files_tell(const Patient& patient, Findings& findings) {
  constexpr const char* kTable = "processes";
  const bool is_told = std::any_of(findings.begin(), findings.end(), [](const Finding& one) {
    return one.severity == Severity::error && one.subject == kTable;
  });
  const std::string begin = patient.directory + "/" + kTable + " ";
  if (is_told)
    std::erase_if(findings, [&](const Finding& one) { return one.subject.empty() && one.sentence.starts_with(begin); });
}

}  // namespace

Patient gather(const LookAtOpeners& openers, Findings& findings) {
  Patient patient;
  auto observed = observe();
  patient.directory = observed ? *observed : directory_to_be();
  auto files = read_files(patient.directory);
  if (files) patient.files = std::move(*files);
  patient.openers = openers(patient.directory);
  if (!observed) {
    if (!is_of_another_layout(patient)) findings.push_back(why_not_observed(patient, observed.status()));
    return patient;
  }
  auto dictionaries = look_at_dictionaries(patient.directory, {});
  auto processes = Processes::read();  // afterwards: what these have made was not left by others
  if (!processes || !dictionaries) {
    const Status& why = processes ? dictionaries.status() : processes.status();
    findings.push_back(finding_of(Severity::error, "", why.message));
    return patient;
  }
  patient.processes = std::move(*processes);
  patient.dictionaries = std::move(*dictionaries);
  // One that went with the last process was not left by it.
  std::erase_if(patient.dictionaries, [&](const Dictionary& one) { return was_removed_since(patient.directory, one); });
  patient.entered = true;
  return patient;
}

Finding finding_of(Severity severity, const std::string& subject, const std::string& sentence) {
  const std::size_t at = sentence.rfind("; ");
  if (at == std::string::npos) return {severity, subject, sentence, ""};
  return {severity, subject, sentence.substr(0, at), sentence.substr(at + 2)};
}

Findings examine(Patient& patient, Findings findings) {
  if (!patient.files.empty()) check_files(patient, findings);
  drop_what_files_tell(patient, findings);
  check_room(patient, findings);
  if (patient.entered) {
    check_processes(patient, findings);
    for (const Dictionary& dictionary : patient.dictionaries) check_dictionary(dictionary, patient, findings);
    check_waits(patient, findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& one, const Finding& other) { return one.severity > other.severity; });
  return findings;
}

Severity worst_of(const Findings& findings) noexcept {
  return findings.empty() ? Severity::note : findings.front().severity;
}

Json to_json(const Patient& patient, const Findings& findings) {
  Json json;
  add_text(json, "directory", patient.directory);
  json["status"] = worst_of(findings) == Severity::note ? "ok" : severity_in_words(worst_of(findings));
  json["findings"] = Json::array();
  for (const Finding& finding : findings) {
    Json& to = json["findings"].emplace_back();
    to["severity"] = severity_in_words(finding.severity);
    to["subject"] = finding.subject.empty() ? Json() : Json(escaped(finding.subject));
    to["sentence"] = escaped(finding.sentence);
    to["advice"] = finding.advice.empty() ? Json() : Json(finding.advice);
  }
  return json;
}

}  // namespace holdfast::inspect
