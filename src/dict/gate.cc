#include "dict/gate.h"

#include <algorithm>

#include "base/hash.h"
#include "base/name.h"

namespace holdfast {

namespace {

std::uint64_t seal_of(std::string_view name) noexcept {
  return name.empty() ? 0 : ~hash_key(name.data(), name.size(), 0);
}

}  // namespace

Expected<const Gate*> find_gate(const std::string& dictionary, const std::string& name) {
  const Gate* const gate = name.empty() ? nullptr : cluster_gate();
  if (gate != nullptr || name.empty()) return gate;
  return Status{Code::unsupported,
                "dictionary " + quote_name(dictionary) + " belongs to the cluster " + quote_name(name) +
                    ", but this library was built without cluster support; install one with cluster support"};
}

void name_gate(GateHeader& header, std::string_view name) noexcept {
  std::copy(name.begin(), name.end(), header.name.begin());
  header.name_seal = seal_of(name);
}

bool is_gate_name_sound(const GateHeader& header) noexcept {
  return header.name.back() == 0 && header.name_seal == seal_of(gate_name(header));
}

std::string_view gate_name(const GateHeader& header) noexcept {
  const auto end = std::find(header.name.begin(), header.name.end(), '\0');
  return {header.name.data(), static_cast<std::size_t>(end - header.name.begin())};
}

Status check_gate(const std::string& dictionary, const std::string& found, const std::string& declared) {
  if (declared.empty() || found == declared) return {};
  const std::string belongs = found.empty() ? "belongs to no cluster" : "belongs to the cluster " + quote_name(found);
  return {Code::mismatch, "dictionary " + quote_name(dictionary) + " exists and " + belongs +
                              ", but HOLDFAST_CLUSTER assigns it to the cluster " + quote_name(declared)};
}

Status choose_gate(const std::string& dictionary, std::string& asked, const std::string& declared) {
  if (asked.empty()) asked = declared;
  if (declared.empty() || asked == declared) return {};
  return {Code::mismatch, "dictionary " + quote_name(dictionary) + " is opened with the cluster " + quote_name(asked) +
                              ", but HOLDFAST_CLUSTER assigns it to the cluster " + quote_name(declared)};
}

std::string describe_gate(const std::string& name) { return name.empty() ? "" : " in the cluster " + quote_name(name); }

}  // namespace holdfast
