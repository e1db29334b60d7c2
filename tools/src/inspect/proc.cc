#include "inspect/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <memory>
#include <sstream>

#include "inspect/descriptor.h"
#include "inspect/text.h"

namespace holdfast::inspect {

namespace {

double seconds_since_boot() {
  std::timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Returns the last number in the line "NSpid:". The line has one number for each namespace, from this process's
// namespace inwards. Returns 0 if there is only one number.
std::uint32_t innermost_pid(const std::string& status) {
  const std::size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return 0;
  std::istringstream line(status.substr(at + 7, status.find('\n', at + 1) - at - 7));
  std::uint32_t pid = 0;
  int count = 0;
  while (line >> pid) ++count;
  return count > 1 ? pid : 0;
}

}  // namespace

std::string_view field_of(std::string_view line, int number) {
  for (; number > 0; --number) {
    const std::size_t end = line.find(' ');
    if (end == std::string_view::npos) return {};
    line.remove_prefix(end + 1);
  }
  return line.substr(0, line.find(' '));
}

std::optional<std::string> read_whole(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return std::nullopt;
  std::string text;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t got = ::read(fd.get(), part.data(), part.size());
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

std::optional<ProcStat> read_stat(std::uint32_t pid) {
  // The file has one line, which the kernel returns as a whole.
  std::array<char, 2048> line;
  const Descriptor fd(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd.get() >= 0 ? ::read(fd.get(), line.data(), line.size()) : -1;
  if (got <= 0) return std::nullopt;
  const std::string_view text(line.data(), static_cast<std::size_t>(got));
  // The program's name may contain any bytes, so fields are counted from its closing bracket, which is the last bracket
  // in the line.
  const std::size_t begin = text.find('(');
  const std::size_t end = text.rfind(')');
  if (begin == std::string::npos || end == std::string::npos) return std::nullopt;
  ProcStat stat;
  stat.program = text.substr(begin + 1, end - begin - 1);
  // proc(5): fields are separated by one blank. Field 3 is the state, 4 the parent, 5 the process group, 20 the number
  // of threads, 22 the start time.
  const std::string_view fields = text.substr(end + 1);
  const auto field = [&](int number) { return field_of(fields, number - 2); };
  const auto ticks = whole_number_of(field(22));
  if (field(3).empty() || !ticks) return std::nullopt;
  stat.state = field(3).front();
  stat.parent = static_cast<std::uint32_t>(whole_number_of(field(4)).value_or(0));
  stat.threads = whole_number_of(field(20)).value_or(0);
  stat.group = static_cast<std::int32_t>(whole_number_of(field(5)).value_or(0));
  stat.start = *ticks;
  stat.age = seconds_since_boot() - static_cast<double>(*ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return stat;
}

std::vector<std::uint32_t> all_pids() {
  std::vector<std::uint32_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir("/proc"), ::closedir);
  if (stream == nullptr) return pids;
  while (const dirent* const entry = ::readdir(stream.get()))
    if (const auto pid = whole_number_of(entry->d_name)) pids.push_back(static_cast<std::uint32_t>(*pid));
  return pids;
}

std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> foreign_pids() {
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> found;
  for (const std::uint32_t pid : all_pids()) {
    const auto status = read_whole(fmt::format("/proc/{}/status", pid));
    const std::uint32_t inner = status ? innermost_pid(*status) : 0;
    struct stat space {};
    if (inner != 0 && ::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &space) == 0)
      found[{space.st_ino, inner}] = pid;
  }
  return found;
}

}  // namespace holdfast::inspect
