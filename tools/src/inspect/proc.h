// Reads /proc for information about a process.
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
  std::int32_t group = -1;  // the process group
  std::uint64_t threads = 0;
  std::uint64_t start = 0;  // clock ticks from the start of the machine to the start of the process
  double age = 0;           // seconds since the process started
  std::string program;

  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }  // stopped by a signal or a debugger
};

/// Returns nothing if the process does not exist.
std::optional<ProcStat> read_stat(std::uint32_t pid);

/// Returns the visible processes in other pid namespaces. Maps a namespace, and a pid in that namespace, to the pid as
/// seen here.
std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_pids();

/// Returns all pids as seen here.
std::vector<std::uint32_t> all_pids();

/// Returns a field of a line whose fields are separated by single blanks, or an empty string if the line has too few
/// fields. The first field is number 0.
std::string_view field_of(std::string_view line, int number);

/// Returns the whole file, or nothing if it cannot be read.
std::optional<std::string> read_whole(const std::string& path);

}  // namespace holdfast::inspect
