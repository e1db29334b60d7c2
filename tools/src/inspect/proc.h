// What /proc tells of a process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::inspect {

struct ProcStat {
  char state = '?';  // as in ps: R, S, D, T, t, Z, X
  std::uint32_t parent = 0;
  double age = 0;  // seconds since the process began
  std::string program;

  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }  // also by a debugger
};

/// Nothing if there is no such process.
std::optional<ProcStat> read_stat(std::uint32_t pid);

/// The processes of other pid namespaces that are seen from here: namespace and pid there, to pid here.
std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_pids();

/// All pids here.
std::vector<std::uint32_t> all_pids();

/// The field of that number, from 0 on, of a line in which a blank parts them; empty if there is none.
std::string_view field_of(std::string_view line, int number);

/// The whole file; nothing if it cannot be read.
std::optional<std::string> read_whole(const std::string& path);

}  // namespace holdfast::inspect
