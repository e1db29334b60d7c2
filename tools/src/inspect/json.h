// The JSON of what there is to see. tools/docs/holdfast.md describes each field; fields may be added, and stay as they
// are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "inspect/ancestors.h"
#include "inspect/dictionaries.h"
#include "inspect/health.h"
#include "inspect/locks.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

using Json = nlohmann::ordered_json;

/// One line for programs; for people indented, and with all that is not ASCII as \uXXXX: it may go to a terminal.
enum class Layout { line, indented };
std::string to_text(const Json& json, Layout layout);

/// To milliseconds: enough for people, and the same for all programs.
double rounded(double seconds);

/// Adds the text as a field. If it is no UTF-8, the field has it escaped, and NAME_hex its bytes.
void add_text(Json& to, const char* name, const std::string& text);

Json to_json(const Process& process);
Json to_json(const Dictionary& dictionary, const Users& users);
/// `ancestors`: of those that wait.
Json to_json(const Lock& lock, Processes& processes, const Ancestors& ancestors);
Json to_json(const WorldSnapshot& snapshot, const Findings& findings);

}  // namespace holdfast::inspect
