#include "run/dictionaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/name.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

constexpr const char* kVariable = "HOLDFAST_DICTS";

/// Returns null if no declaration has this name.
const Declaration* find(const std::vector<Declaration>& declarations, std::string_view name) {
  const auto found = std::find_if(declarations.begin(), declarations.end(),
                                  [name](const Declaration& declaration) { return declaration.name == name; });
  return found == declarations.end() ? nullptr : &*found;
}

Status add(std::vector<Declaration>& declarations, const Declaration& wanted) {
  const Declaration* known = find(declarations, wanted.name);
  if (known == nullptr) {
    declarations.push_back(wanted);
  } else if (known->bytes != wanted.bytes || known->largest != wanted.largest) {
    return {Code::invalid, fmt::format("dictionary {} is declared twice, with sizes {} and {}", quote_name(wanted.name),
                                       known->size, wanted.size)};
  }
  return {};
}

}  // namespace

Expected<Declaration> read_declaration(std::string_view text) {
  auto declaration = parse_declaration(text);
  if (declaration && declaration->bytes < HOLDFAST_SIZE_MIN)
    return Status{Code::invalid, fmt::format("bad size \"{}\" for dictionary {}: expected at least {} bytes (12k)",
                                             declaration->size, quote_name(declaration->name), int{HOLDFAST_SIZE_MIN})};
  return declaration;
}

Expected<std::vector<Declaration>> environment_declarations() {
  const char* value = ::secure_getenv(kVariable);
  std::string_view rest = value == nullptr ? "" : value;
  std::vector<Declaration> declarations;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.empty()) continue;
    const Expected<Declaration> declaration = read_declaration(item);
    if (!declaration) return Status{declaration.status().code, "HOLDFAST_DICTS: " + declaration.status().message};
    if (Status status = add(declarations, *declaration); !status.ok())
      return Status{status.code, "HOLDFAST_DICTS: " + status.message};
  }
  return declarations;
}

Expected<std::vector<Declaration>> merge_declarations(const std::vector<Declaration>& environment,
                                                      const std::vector<Declaration>& options) {
  std::vector<Declaration> merged;
  for (const Declaration& declaration : options)
    if (Status status = add(merged, declaration); !status.ok()) return Status{status.code, "--dict: " + status.message};
  for (const Declaration& declaration : environment)
    if (find(options, declaration.name) == nullptr) merged.push_back(declaration);
  return merged;
}

void export_declarations(const std::vector<Declaration>& declarations) {
  std::string value;
  for (const Declaration& declaration : declarations) {
    value += fmt::format("{}{}={}", value.empty() ? "" : ",", encode_name(declaration.name), declaration.bytes);
    if (declaration.largest != 0) value += fmt::format(":largest={}", declaration.largest);
  }
  ::setenv(kVariable, value.c_str(), 1);
}

Status open_declarations(const std::vector<Declaration>& declarations) {
  if (holdfast_directory() == nullptr) return {Code::system, holdfast_error()};
  for (const Declaration& declaration : declarations) {
    const holdfast_options options{declaration.bytes, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0,
                                   nullptr,           declaration.largest};
    holdfast_dict* dict = nullptr;
    const int code = holdfast_open(declaration.name.data(), declaration.name.size(), &options, &dict);
    if (code != HOLDFAST_OK)
      return {static_cast<Code>(code),
              fmt::format("dictionary {}: {}", quote_name(declaration.name), holdfast_error())};
  }
  return {};
}

}  // namespace holdfast::cli
