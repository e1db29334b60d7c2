#include "platform/left_open.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace holdfast::platform {

namespace {

enum class State { unused, changing, left };

struct Left {
  std::atomic<State> state;
  // Belongs to the thread that has made the state `changing`.
  int fd;
  FileId id;
};
constinit std::array<Left, 64> left{};
constinit std::atomic<int> left_count{0};

/// False if the kernel does not say which file it is.
bool close_if_known(int fd, const FileId& id) noexcept {
  FileId found;
  const int error = file_id(fd, found);
  if (error == 0 && found == id) ::close(fd);
  return error == 0 || error == EBADF;
}

// If all places are taken the descriptor stays open: in practice the kernel never refuses to say.
void keep(int fd, const FileId& id) noexcept {
  for (Left& place : left) {
    State unused = State::unused;
    // Acquire: pairs with the release in retry(), which has read the other fields.
    if (!place.state.compare_exchange_strong(unused, State::changing, std::memory_order_acquire,
                                             std::memory_order_relaxed))
      continue;
    place.fd = fd;
    place.id = id;
    left_count.fetch_add(1, std::memory_order_relaxed);
    place.state.store(State::left, std::memory_order_release);  // pairs with the acquire in retry()
    return;
  }
}

void retry(Left& place) noexcept {
  State seen = State::left;
  if (!place.state.compare_exchange_strong(seen, State::changing, std::memory_order_acquire, std::memory_order_relaxed))
    return;
  const bool done = close_if_known(place.fd, place.id);
  if (done) left_count.fetch_sub(1, std::memory_order_relaxed);
  place.state.store(done ? State::unused : State::left, std::memory_order_release);
}

}  // namespace

void close_if_file(int fd, const FileId& id) noexcept {
  if (fd < 0) return;
  const int saved = errno;
  if (!close_if_known(fd, id)) keep(fd, id);
  errno = saved;
}

void close_what_is_left() noexcept {
  if (left_count.load(std::memory_order_relaxed) == 0) return;
  const int saved = errno;
  for (Left& place : left) retry(place);
  errno = saved;
}

}  // namespace holdfast::platform
