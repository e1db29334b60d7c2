#include "inspect/openers.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "world/kept_file.h"
#include "world/world_file.h"

namespace holdfast::inspect {

namespace {

constexpr int kDeviceField = 3;
constexpr int kInodeField = 4;

/// Returns the name of the file if the line from /proc/PID/maps describes a deleted dictionary file in the directory.
std::string deleted_dictionary(std::string_view line, const std::string& directory) {
  constexpr std::string_view kDeleted = " (deleted)";
  const std::size_t path = line.find(" " + directory + "/");
  if (path == std::string_view::npos || !line.ends_with(kDeleted)) return {};
  line.remove_suffix(kDeleted.size());
  line.remove_prefix(path + directory.size() + 2);
  return line.ends_with(kDictionarySuffix) ? std::string(line) : std::string();
}

}  // namespace

// Records a file only once, even if it is mapped twice.
void Openers::add(std::uint32_t pid, const std::string& maps, const std::string& device, const std::string& directory) {
  for (std::string_view rest = maps; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (field_of(line, kDeviceField) != device) continue;
    const auto inode = whole_number_of(field_of(line, kInodeField));
    if (!inode) continue;
    std::vector<std::uint32_t>& pids = pids_of_[*inode];
    if (pids.empty() || pids.back() != pid) pids.push_back(pid);
    if (std::string name = deleted_dictionary(line, directory); !name.empty()) deleted_[*inode] = std::move(name);
  }
}

Openers Openers::read(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds) {
  Openers openers;
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return openers;
  const std::string name = fmt::format("{:02x}:{:02x}", gnu_dev_major(info.st_dev), gnu_dev_minor(info.st_dev));
  const double end = holdfast_now() + seconds;
  for (const std::uint32_t pid : pids) {
    if (holdfast_now() > end) {
      openers.in_time_ = false;
      break;
    }
    const auto maps = read_whole(fmt::format("/proc/{}/maps", pid));
    if (maps)
      openers.add(pid, *maps, name, directory);
    else if (read_stat(pid))
      openers.closed_.push_back(pid);
  }
  for (auto& [inode, found] : openers.pids_of_) std::sort(found.begin(), found.end());
  return openers;
}

void Openers::limit_to(const std::vector<std::uint32_t>& pids) {
  std::erase_if(closed_, [&](std::uint32_t pid) { return std::find(pids.begin(), pids.end(), pid) == pids.end(); });
}

const std::vector<std::uint32_t>& Openers::of(std::uint64_t inode) const {
  static const std::vector<std::uint32_t> none;
  const auto found = pids_of_.find(inode);
  return found != pids_of_.end() ? found->second : none;
}

std::vector<std::uint32_t> pids_that_keep(const std::string& directory, const std::vector<KeptUse>& uses,
                                          const std::vector<std::uint32_t>& pids, double seconds) {
  std::vector<std::uint32_t> found;
  struct stat where {};
  if (::stat(directory.c_str(), &where) != 0) return found;
  const auto is_one = [&](const std::filesystem::path& descriptor) {
    std::error_code error;
    // Read the name first, because stat() on another file could hang if the file is on a server that does not answer.
    const std::string name = std::filesystem::read_symlink(descriptor, error).filename();
    struct stat info {};
    return name.starts_with(kUsePrefix) && ::stat(descriptor.c_str(), &info) == 0 && info.st_dev == where.st_dev &&
           std::any_of(uses.begin(), uses.end(), [&](const KeptUse& use) { return use.inode == info.st_ino; });
  };
  const double end = holdfast_now() + seconds;
  for (const std::uint32_t pid : pids) {
    if (holdfast_now() > end) break;
    std::error_code error;
    std::filesystem::directory_iterator one(fmt::format("/proc/{}/fd", pid), error);
    for (const std::filesystem::directory_iterator last; !error && one != last; one.increment(error))
      if (is_one(one->path())) {
        found.push_back(pid);
        break;
      }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace holdfast::inspect
