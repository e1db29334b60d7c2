#include <fmt/format.h>
#include <sys/statvfs.h>

#include "inspect/health.h"
#include "inspect/text.h"

namespace holdfast::inspect {

namespace {

constexpr double kLittle = 0.05;  // of the file system
constexpr std::uint64_t kVeryLittle = std::uint64_t{1} << 20;

}  // namespace

// Large dictionaries take their memory as they use it, so that it may be missing later.
void check_room(const Patient& patient, Findings& findings) {
  struct statvfs system {};
  if (::statvfs(patient.directory.c_str(), &system) != 0) return;
  const std::uint64_t free = std::uint64_t{system.f_bavail} * system.f_frsize;
  const std::uint64_t all = std::uint64_t{system.f_blocks} * system.f_frsize;
  std::uint64_t promised = 0;
  for (const WorldFile& file : patient.files)
    if (file.kind == WorldFile::Kind::dictionary && file.bytes > file.bytes_taken)
      promised += file.bytes - file.bytes_taken;
  const std::string room = fmt::format("the file system of {} has {} of {} free", patient.directory,
                                       bytes_in_words(free), bytes_in_words(all));
  constexpr const char* kAdvice = "make the file system larger (size= of tmpfs), or dictionaries smaller";
  if (free < kVeryLittle)
    findings.push_back({Severity::error, "", room + ": changes that need memory fail", kAdvice});
  else if (free < promised)
    findings.push_back({Severity::warning, "",
                        fmt::format("{}, and the dictionaries may take {} more", room, bytes_in_words(promised)),
                        kAdvice});
  else if (static_cast<double>(free) < kLittle * static_cast<double>(all))
    findings.push_back({Severity::warning, "", room, kAdvice});
  if (system.f_files != 0 && system.f_ffree == 0)
    findings.push_back({Severity::error, "", "the file system has no inode left", "raise nr_inodes= of tmpfs"});
}

}  // namespace holdfast::inspect
