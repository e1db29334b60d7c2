#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "inspect/health.h"
#include "inspect/names.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "world/name_use.h"
#include "world/world_file.h"

namespace holdfast::inspect {

namespace {

constexpr double kSecondsForDescriptors = 2;
constexpr double kLittle = 0.05;  // the fraction of the file system that counts as little free space
constexpr std::uint64_t kVeryLittle = std::uint64_t{1} << 20;

std::string named(const std::vector<std::uint32_t>& pids) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(pids[i]);
    if (const auto stat = read_stat(pids[i])) text += " (" + escaped(stat->program) + ")";
  }
  if (pids.size() > kShown) text += fmt::format(" and {} more", pids.size() - kShown);
  return text;
}

/// Returns a text such as "pid 4711 (nginx) has" or "pids 4711 (nginx), 4712 (nginx) have".
std::string those_have(const std::vector<std::uint32_t>& pids) {
  const bool is_one = pids.size() == 1;
  return fmt::format("{} {} {}", is_one ? "pid" : "pids", named(pids), is_one ? "has" : "have");
}

/// Names the commands that hold locks across exec in the dictionary with this name_byte() (world/name_use.h). These
/// commands do not have the dictionary's file open.
std::string commands_with_locks(const WorldSnapshot& snapshot, std::uint64_t byte) {
  const auto uses = read_kept_uses(snapshot.directory, byte);
  if (!uses || uses->empty()) return {};
  const std::vector<std::uint32_t> pids = pids_that_keep(snapshot.directory, *uses, all_pids(), kSecondsForDescriptors);
  if (pids.empty()) return "a command that is not visible from here has locks in it";
  return those_have(pids) + " locks in it";
}

/// Describes which processes use the file of the dictionary with this name_byte().
std::string users(const WorldSnapshot& snapshot, const WorldFile& file, std::uint64_t byte) {
  const auto& pids = snapshot.openers.of(file.inode);
  std::string commands = commands_with_locks(snapshot, byte);
  if (!pids.empty()) return fmt::format("{} it open{}{}", those_have(pids), commands.empty() ? "" : "; ", commands);
  if (!commands.empty()) return commands;
  return snapshot.openers.complete() ? "no process has it open" : "no process that this user may inspect has it open";
}

std::string users(const WorldSnapshot& snapshot, const WorldFile& file) {
  return users(snapshot, file, name_byte(file.name, file.inode));
}

/// Returns whether processes of a different version use the world. In that case, none of the world's files is replaced.
bool is_kept_by_another_version(const WorldSnapshot& snapshot) {
  return std::any_of(snapshot.files.begin(), snapshot.files.end(), [&](const WorldFile& file) {
    return file.name == kProcessTable && file.is_holdfast && !file.has_our_layout() &&
           !snapshot.openers.of(file.inode).empty();
  });
}

Finding other_layout(const WorldSnapshot& snapshot, const WorldFile& file) {
  const std::string what =
      fmt::format("has layout {}, but this version uses {}; {}", file.layout, our_layout(), users(snapshot, file));
  const bool is_used = !snapshot.openers.of(file.inode).empty();
  if (is_used || is_kept_by_another_version(snapshot))
    return {
        is_used ? Severity::error : Severity::warning, file.name, what,
        "programs of this version cannot use it until the processes of the other version have ended: end or upgrade "
        "them, or use another directory"};
  if (file.persist == kPersistent && file.kind == WorldFile::Kind::dictionary)
    return {Severity::error, file.name, what,
            "it persists, so no program replaces it: remove it with \"holdfast rm --force\", or keep using the other "
            "version"};
  return {Severity::warning, file.name, what,
          "once no process has it open, the next process of this version replaces it"};
}

constexpr const char* kStartAgain = "end these processes, or restart them together";

/// Checks to which world the file belongs. `world` is the id in the process table, or empty if the table is missing.
void check_world(const WorldSnapshot& snapshot, const WorldFile& file, const std::string& world, Findings& findings) {
  if (file.world == world) return;
  const std::string sentence = "belongs to an earlier file \"processes\", which was removed or replaced";
  if (is_used_by_another_world(snapshot.directory, file, world))
    findings.push_back({Severity::error, file.name,
                        sentence + ", and new programs cannot open it; " + users(snapshot, file), kStartAgain});
  else if (!world.empty())
    findings.push_back({Severity::warning, file.name, sentence + "; " + users(snapshot, file),
                        file.persist != kTemporary ? "the next process that opens it takes it over"
                                                   : "the next process that opens it replaces it"});
}

/// Reports a missing table under its file name, so that other findings about this file are dropped.
void check_missing_table(const WorldSnapshot& snapshot, Findings& findings) {
  if (!dictionaries_without_table(snapshot.directory).empty())
    findings.push_back({Severity::error, kProcessTable, "was deleted or moved, but programs still use it",
                        "end the processes that have dictionaries open, or restart them together"});
}

/// Returns how to remove a file that holdfast did not create or can no longer read.
std::string how_to_remove(const WorldFile& file) {
  if (file.name == kProcessTable) return "end all processes that use the directory, and remove this file";
  if (file.is_directory) return "move it elsewhere: holdfast removes no directories";
  return fmt::format("\"holdfast rm --force {}\" removes it", escaped(file.dictionary));
}

/// Checks a file of our layout.
void check_file(const WorldFile& file, Findings& findings) {
  const auto add = [&](Severity severity, const std::string& sentence, const std::string& advice) {
    findings.push_back({severity, file.name, sentence, advice});
  };
  if (file.retired) {
    add(Severity::note, "was removed, but its file is still there because a process died",
        "the next process deletes it");
    return;
  }
  if (file.made_bytes != 0 && file.bytes != file.made_bytes)
    add(Severity::error,
        fmt::format("was truncated or overwritten: it has {} bytes, but was created with {}", file.bytes,
                    file.made_bytes),
        "its contents are lost: " + how_to_remove(file));
  if (file.made_inode != file.inode)
    add(Severity::error, "is a copy, not the file that was created here", how_to_remove(file));
  if ((file.mode & ~file.made_mode) != 0)
    add(Severity::error,
        fmt::format("has mode {:04o}, but was created with {:04o}: programs refuse it", file.mode, file.made_mode),
        "restore the mode with chmod");
  if (file.links > 1)
    add(Severity::error, fmt::format("has {} hard links: programs refuse it", file.links),
        "remove the other hard links");
}

/// Checks the name files. If a name file is missing or was replaced, programs cannot know which names are in use.
void check_name_files(const Names& names, Findings& findings) {
  for (const auto& [number, is_missing] : names.unsound())
    findings.push_back({Severity::error, name_file_name(number),
                        fmt::format("{}: some dictionaries cannot be opened",
                                    is_missing ? "was deleted or moved" : "is not the file that was created here"),
                        is_missing ? "end all processes that use the directory; the next one creates it again"
                                   : "end all processes that use the directory, and remove this file"});
}

/// Returns the name of a file that was deleted while it was mapped. /proc shows the name only for processes that have
/// not created the file themselves.
std::string deleted_name(const WorldSnapshot& snapshot, std::uint64_t byte) {
  for (const auto& [inode, name] : snapshot.openers.deleted())
    if (name_byte(name, inode) == byte) return name;
  return {};
}

void check_lost_names(const WorldSnapshot& snapshot, const Names& names, Findings& findings) {
  for (const std::uint64_t byte : names.lost()) {
    WorldFile file;
    file.inode = byte % (std::uint64_t{1} << kNameInodeBits);
    file.name = deleted_name(snapshot, byte);
    findings.push_back({Severity::error, file.name.empty() ? snapshot.directory : file.name,
                        fmt::format("{} was deleted or moved while it was in use, and new programs cannot use its "
                                    "name; {}",
                                    file.name.empty() ? "a dictionary" : "the file", users(snapshot, file, byte)),
                        "end these processes, or restart them together"});
  }
}

/// Reports kept dictionaries that no process uses. They take up memory, and may not be needed any more.
void check_leftovers(const WorldSnapshot& snapshot, Findings& findings) {
  std::string names;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (const WorldFile& file : snapshot.files) {
    const bool is_kept = file.has_our_layout() && !file.dictionary.empty() && file.persist == kKept && !file.retired;
    if (!is_kept || is_in_use(snapshot.directory, file)) continue;
    constexpr std::size_t kShown = 20;
    if (count < kShown) names += (count == 0 ? "" : ", ") + escaped(file.dictionary);
    if (count == kShown) names += ", ...";
    ++count;
    bytes += file.bytes_taken;
  }
  if (count != 0)
    findings.push_back({Severity::note, "",
                        fmt::format("{} unused but kept, with {} of memory: {}",
                                    counted(count, "dictionary is", "dictionaries are"), bytes_in_words(bytes), names),
                        "\"holdfast rm NAME\" removes one that is no longer needed; a reboot removes all"});
}

bool is_ours_to_judge(const WorldFile& file) { return file.name == kProcessTable || !file.dictionary.empty(); }

}  // namespace

const char* severity_in_words(Severity severity) noexcept {
  constexpr std::array<const char*, 3> kWords{"note", "warning", "error"};
  return kWords[static_cast<std::size_t>(severity)];
}

void check_files(const WorldSnapshot& snapshot, Findings& findings) {
  const auto table = std::find_if(snapshot.files.begin(), snapshot.files.end(),
                                  [](const WorldFile& file) { return file.name == kProcessTable; });
  const std::string world = table != snapshot.files.end() && table->has_our_layout() ? table->world : "";
  const bool knows_world = !world.empty() || table == snapshot.files.end();
  for (const WorldFile& file : snapshot.files) {
    if (!is_ours_to_judge(file)) continue;
    if (!file.trouble.empty())
      findings.push_back({Severity::error, file.name, "cannot be read: " + file.trouble, ""});
    else if (!file.is_regular)
      findings.push_back(
          {Severity::error, file.name, "is not a regular file: programs refuse it", how_to_remove(file)});
    else if (!file.is_holdfast)
      findings.push_back(
          {Severity::error, file.name, "is not a holdfast file, or was overwritten", how_to_remove(file)});
    else if (!file.has_our_layout())
      findings.push_back(other_layout(snapshot, file));
    else
      check_file(file, findings);
    if (file.kind == WorldFile::Kind::dictionary && file.has_our_layout() && !file.retired && knows_world)
      check_world(snapshot, file, world, findings);
  }
  check_missing_table(snapshot, findings);
  const Names names = Names::read(snapshot.directory, snapshot.files);
  check_name_files(names, findings);
  check_lost_names(snapshot, names, findings);
  check_leftovers(snapshot, findings);
}

// Checks the free space. A dictionary's file takes up memory only as it is filled, so memory may run out later.
void check_room(const WorldSnapshot& snapshot, Findings& findings) {
  struct statvfs system {};
  if (::statvfs(snapshot.directory.c_str(), &system) != 0) return;
  const std::uint64_t free = std::uint64_t{system.f_bavail} * system.f_frsize;
  const std::uint64_t all = std::uint64_t{system.f_blocks} * system.f_frsize;
  std::uint64_t promised = 0;
  for (const WorldFile& file : snapshot.files)
    if (file.kind == WorldFile::Kind::dictionary && file.bytes > file.bytes_taken)
      promised += file.bytes - file.bytes_taken;
  const std::string room = fmt::format("the file system of {} has {} of {} free", snapshot.directory,
                                       bytes_in_words(free), bytes_in_words(all));
  constexpr const char* kAdvice = "enlarge the file system (size= of tmpfs), or use smaller dictionaries";
  if (free < kVeryLittle)
    findings.push_back({Severity::error, "", room + ": changes that need memory fail", kAdvice});
  else if (free < promised)
    findings.push_back({Severity::warning, "",
                        fmt::format("{}, but the dictionaries may take {} more", room, bytes_in_words(promised)),
                        kAdvice});
  else if (static_cast<double>(free) < kLittle * static_cast<double>(all))
    findings.push_back({Severity::warning, "", room, kAdvice});
  if (system.f_files != 0 && system.f_ffree == 0)
    findings.push_back({Severity::error, "", "the file system has no free inodes", "raise nr_inodes= of tmpfs"});
}

}  // namespace holdfast::inspect
