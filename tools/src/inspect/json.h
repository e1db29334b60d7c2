// Makes the command's JSON. tools/docs/holdfast.md describes each field. Fields may be added, but existing fields must
// not change.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "inspect/ancestors.h"
#include "inspect/dictionaries.h"
#include "inspect/health.h"
#include "inspect/locks.h"
#include "inspect/processes.h"
#include "inspect/user_directories.h"

namespace holdfast::inspect {

using Json = nlohmann::ordered_json;

/// JSON is on one line for programs, and indented for people. The indented form contains \uXXXX for non-ASCII
/// characters, because a terminal may show it.
enum class Layout { line, indented };
std::string to_text(const Json& json, Layout layout);

/// Rounds to milliseconds, which are accurate enough for people and the same in all output.
double rounded(double seconds);

/// Adds the text as a field. If the text is not UTF-8, the field contains the escaped text, and a second field,
/// NAME_hex, contains the bytes.
void add_text(Json& to, const char* name, const std::string& text);

Json to_json(const Process& process);
Json to_json(const Dictionary& dictionary, const Users& users);
/// `ancestors`: the result of ancestors_of_waiters().
Json to_json(const Lock& lock, Processes& processes, const Ancestors& ancestors);
Json to_json(const DirectoryLook& look);
Json to_json(const Finding& finding);
Json to_json(const WorldSnapshot& snapshot, const Findings& findings);

}  // namespace holdfast::inspect
