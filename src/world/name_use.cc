#include "world/name_use.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "world/kept_file.h"
#include "world/name_file.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;
using platform::Mapping;

constexpr std::uint64_t kInodes = std::uint64_t{1} << kNameInodeBits;
/// The number of checks before concluding that another file is in use. One check is not enough, because a process that
/// opened a file just before its removal holds the file's byte for a moment. No benchmark covers these two constants,
/// because none opens a file at the moment of its removal.
constexpr int kNameLooks = 5;
constexpr std::uint64_t kNameRetryNs = kNsPerMs;
/// The number of records in which a byte may be stored.
constexpr std::size_t kProbe = 16;

// Records are written under the directory's lock. A process whose attempt at a record lock fails reads the records
// without the directory's lock. A torn record does not name a file in use, and the reader checks again.
using Notes = std::array<std::uint64_t, kRemovedNotes>;

std::size_t place_of(std::uint64_t byte, std::size_t step) noexcept {
  return ((byte * 0x9E3779B97F4A7C15U >> 32) + step) % kRemovedNotes;
}

Notes read_notes(int file) noexcept {
  Notes notes{};
  if (::pread(file, notes.data(), sizeof notes, kRemovedNotesOffset) != static_cast<ssize_t>(sizeof notes)) return {};
  return notes;
}

void write_note(int file, std::size_t place, std::uint64_t byte) noexcept {
  // Do not use a system call, because a process over its file size limit would get SIGXFSZ.
  const Mapping page = platform::map_shared(file, kHeaderBytes);
  if (!page) return;  // new processes are refused for longer
  // Relaxed: nothing depends on the record's order, see above.
  reinterpret_cast<Word64*>(page.data() + kRemovedNotesOffset)[place].store(byte, kRelaxed);
}

bool is_noted(int file, std::uint64_t byte) noexcept {
  const Notes notes = read_notes(file);
  for (std::size_t step = 0; step < kProbe; ++step)
    if (notes[place_of(byte, step)] == byte) return true;
  return false;
}

void forget_note(int file, std::uint64_t byte) noexcept {
  const Notes notes = read_notes(file);
  for (std::size_t step = 0; step < kProbe; ++step)
    if (notes[place_of(byte, step)] == byte) write_note(file, place_of(byte, step), 0);
}

bool is_held(int file, std::uint64_t byte) noexcept {
  std::uint64_t holder = platform::kNoHolder;
  return platform::find_record_lock(file, byte, 1, holder) != 0 || holder != platform::kNoHolder;
}

/// Returns whether another file of this name is in use, and was not removed properly.
bool is_other_in_use(int file, std::uint64_t own) noexcept {
  const std::uint64_t first = own & ~(kInodes - 1);
  // The kernel reports only one of the locks in a range. This lock splits the range in two.
  std::array<std::pair<std::uint64_t, std::uint64_t>, 64> ranges{{{first, own}, {own + 1, first + kInodes}}};
  std::size_t count = 2;
  while (count > 0) {
    const auto [begin, end] = ranges[--count];
    std::uint64_t holder = platform::kNoHolder;
    if (begin >= end) continue;
    if (platform::find_record_lock(file, begin, end - begin, holder) != 0) return true;  // the kernel does not answer
    if (holder == platform::kNoHolder) continue;
    if (holder < begin || holder >= end) return true;  // a foreign lock of more than one byte, which hides ours
    if (!is_noted(file, holder) || count + 2 > ranges.size()) return true;
    // The kernel usually reports the first lock. Then the part before it, which is checked next, is empty.
    ranges[count++] = {holder + 1, end};
    ranges[count++] = {begin, holder};
  }
  return false;
}

/// A lock of this process on a name. No child is forked while the descriptor is open, because the child would keep the
/// lock.
struct Held {
  Mapping pin;  // empty: no lock
  FileDescriptor file;
};

Expected<FileDescriptor> lock_byte(const RuntimeDirectory& directory, const std::string& name, std::uint64_t byte) {
  auto file = open_or_make_name_file(directory, byte >> kNameInodeBits);
  if (!file) return file.status();
  if (const int error = platform::try_shared_record_lock(file->get(), byte); error != 0) {
    return Status{Code::system,
                  "cannot lock the name of " + directory.path_of(name) + ": " + platform::error_text(error)};
  }
  return file;
}

Expected<Held> hold(const RuntimeDirectory& directory, const std::string& name, std::uint64_t byte) {
  auto file = lock_byte(directory, name, byte);
  if (!file) return file.status();
  if (is_other_in_use(file->get(), byte)) return Held();
  // Relaxed is enough after checking the locks, because the word is stored before exec ends the lock of a name that is
  // kept in use.
  const std::uint64_t first = byte & ~(kInodes - 1);
  const bool was_any_kept = directory.kept_uses().load(kRelaxed) != 0;
  if (was_any_kept && is_other_use_kept(directory, first, first + kInodes, byte)) return Held();
  Mapping pin = platform::pin_description(file->get(), platform::AtFork::inherit);
  if (!pin) {
    return Status{Code::system, "cannot keep the lock on the name of " + directory.path_of(name) + ": " +
                                    platform::error_text(errno)};
  }
  return Held{std::move(pin), std::move(*file)};
}

}  // namespace

Expected<Mapping> hold_name(const RuntimeDirectory& directory, const std::string& name, std::uint64_t inode) {
  if (!directory.is_anchored()) return Mapping();
  const platform::ForkGuard no_fork;
  auto held = hold(directory, name, name_byte(name, inode));
  if (!held) return held.status();
  return std::move(held->pin);
}

Expected<Mapping> hold_new_name(const RuntimeDirectory& directory, const std::string& name, std::uint64_t inode) {
  if (!directory.is_anchored()) return Mapping();
  const std::uint64_t byte = name_byte(name, inode);
  for (int look = 1;; ++look) {
    {
      const platform::ForkGuard no_fork;
      auto held = hold(directory, name, byte);
      if (!held) return held.status();
      if (held->pin) {
        // A removed file may have had the same inode number.
        forget_note(held->file.get(), byte);
        return std::move(held->pin);
      }
    }
    if (look == kNameLooks) return refuse_replaced(directory, name);
    platform::sleep_until(platform::monotonic_ns() + kNameRetryNs);
  }
}

Expected<FileDescriptor> keep_name(const RuntimeDirectory& directory, const std::string& name, std::uint64_t inode) {
  if (!directory.is_anchored()) return FileDescriptor();
  directory.kept_uses().store(1, kRelaxed);  // must come before the name is kept in use: see hold()
  return keep_use(directory, name_byte(name, inode));
}

Status refuse_replaced(const RuntimeDirectory& directory, const std::string& name) {
  return {Code::mismatch,
          directory.path_of(name) +
              " was deleted, moved or replaced, but processes still use it; stop those processes, or choose "
              "another name"};
}

Expected<FileDescriptor> RemovedNote::open(const RuntimeDirectory& directory, const std::string& name) {
  auto file = open_name_file(directory, name_byte(name, 0) >> kNameInodeBits);
  const bool is_in_want = !file && (file.status().code == Code::system || file.status().code == Code::no_memory);
  // If there is no file, either no name of the file is in use, or no new process is admitted anyway. So a removal does
  // not need memory.
  return file || is_in_want ? std::move(file) : FileDescriptor();
}

Expected<RemovedNote> RemovedNote::prepare(const RuntimeDirectory& directory, const std::string& name) {
  const bool is_noted = directory.is_anchored() && name.ends_with(kDictionarySuffix);
  if (!is_noted) return RemovedNote(nullptr, FileDescriptor(), name);
  auto file = open(directory, name);
  if (!file) return file.status();
  return RemovedNote(&directory, std::move(*file), name);
}

void RemovedNote::write(std::uint64_t inode) noexcept {
  if (directory_ == nullptr) return;
  const std::uint64_t byte = name_byte(name_, inode);
  // A process that has opened the dictionary since prepare() may have made the file. A process that opens the
  // dictionary after the mark was set finds the mark.
  try {
    if (directory_->kept_uses().load(kRelaxed) != 0) forget_uses(*directory_, byte);
    if (!file_) {
      if (auto opened = open(*directory_, name_)) file_ = std::move(*opened);
    }
  } catch (...) {
    return;  // no memory for the path: new processes are refused for longer
  }
  if (!file_) return;
  if (is_noted(file_.get(), byte)) return;
  const Notes notes = read_notes(file_.get());
  for (std::size_t step = 0; step < kProbe; ++step) {
    const std::uint64_t there = notes[place_of(byte, step)];
    // Overwritten memory may contain anything, but only a byte for a name can be held.
    if (there >= kNameLocks && there >> 63 == 0 && is_held(file_.get(), there)) continue;
    write_note(file_.get(), place_of(byte, step), byte);
    return;
  }
}

}  // namespace holdfast
