// Records descriptors and mappings that the kernel refused to close or unmap, and tries again before each attempt at a
// record lock. Without this, a lock that a mapping pins would never become free.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

/// A list of things to release later. If all slots are taken, a thing leaks, but in practice, the kernel hardly ever
/// refuses.
template <class Thing>
class LeftOver {
 public:
  void keep(const Thing& thing) noexcept {
    for (Slot& slot : slots_) {
      State unused = State::unused;
      // Acquire: pairs with the release in retry(), which comes after retry() has read the thing.
      if (!slot.state.compare_exchange_strong(unused, State::changing, std::memory_order_acquire,
                                              std::memory_order_relaxed))
        continue;
      slot.thing = thing;
      count_.fetch_add(1, std::memory_order_relaxed);
      slot.state.store(State::left, std::memory_order_release);  // pairs with the acquire in retry()
      return;
    }
  }

  /// Calls `give_back(const Thing&)` for each thing; `give_back` returns whether the thing is gone.
  template <class GiveBack>
  void retry(GiveBack&& give_back) noexcept {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    const int saved = errno;
    for (Slot& slot : slots_) {
      State seen = State::left;
      if (!slot.state.compare_exchange_strong(seen, State::changing, std::memory_order_acquire,
                                              std::memory_order_relaxed))
        continue;
      const bool done = give_back(slot.thing);
      if (done) count_.fetch_sub(1, std::memory_order_relaxed);
      slot.state.store(done ? State::unused : State::left, std::memory_order_release);
    }
    errno = saved;
  }

 private:
  enum class State { unused, changing, left };
  struct Slot {
    std::atomic<State> state;
    Thing thing;  // belongs to the thread that set the state to `changing`
  };
  std::array<Slot, 64> slots_{};
  std::atomic<int> count_{0};
};

struct OpenFile {
  int fd;
  FileId id;
};
constinit LeftOver<OpenFile> open_files{};

struct MappedPages {
  pid_t process;
  void* data;
  std::size_t size;
};
constinit LeftOver<MappedPages> mapped_pages{};

/// Closes the descriptor if it refers to that file. Returns false if the kernel does not say to which file it refers.
bool close_if_known(int fd, const FileId& id) noexcept {
  FileId found;
  const int error = file_id(fd, found);
  if (error == 0 && found == id) ::close(fd);
  return error == 0 || error == EBADF;
}

}  // namespace

void close_if_file(int fd, const FileId& id) noexcept {
  if (fd < 0) return;
  const int saved = errno;
  if (!close_if_known(fd, id)) open_files.keep({fd, id});
  errno = saved;
}

void unmap(void* data, std::size_t size) noexcept {
  const int saved = errno;
  if (::munmap(data, size) != 0) mapped_pages.keep({::getpid(), data, size});
  errno = saved;
}

void give_back_left_over() noexcept {
  // A forked child does not have its parent's pins, and may have mapped something else at the address.
  mapped_pages.retry([](const MappedPages& pages) noexcept {
    return pages.process != ::getpid() || ::munmap(pages.data, pages.size) == 0;
  });
  open_files.retry([](const OpenFile& file) noexcept { return close_if_known(file.fd, file.id); });
}

}  // namespace holdfast::platform
