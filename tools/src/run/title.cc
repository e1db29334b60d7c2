#include "run/title.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

namespace holdfast::cli {

namespace {

// The memory of the command line, followed by the environment. The kernel shows this memory up to the end of the
// command line. If the last byte of the command line is no longer zero, the kernel shows the memory up to the first
// zero byte.
std::span<char> room;

/// Returns whether `text` starts at `end`. If so, moves `end` behind the text.
bool follows(const char* text, const char*& end) noexcept {
  if (text != end) return false;
  end += std::strlen(text) + 1;
  return true;
}

}  // namespace

void make_room_for_title(int count, char** values) noexcept {
  if (count < 1) return;
  const char* end = values[0];
  for (int i = 0; i < count; ++i)
    if (!follows(values[i], end)) return;
  const char* const begin = end;
  char** last = environ;
  while (*last != nullptr && follows(*last, end)) ++last;
  // Other code keeps pointers to these strings, so the copy is never freed.
  static char* copy = nullptr;
  const auto size = static_cast<std::size_t>(end - begin);
  copy = static_cast<char*>(std::malloc(size + 1));  // NOLINT(cppcoreguidelines-no-malloc): never freed
  if (copy == nullptr) return;
  std::copy(begin, end, copy);
  for (char** variable = environ; variable != last; ++variable) *variable = copy + (*variable - begin);
  // The C library uses this name in its messages.
  char* const name = ::strdup(program_invocation_name);
  if (name == nullptr) return;
  program_invocation_short_name = name + (program_invocation_short_name - program_invocation_name);
  program_invocation_name = name;
  room = {values[0], static_cast<std::size_t>(end - values[0])};
}

void set_title(const std::string& title) noexcept {
  if (room.empty()) return;
  const std::size_t length = std::min(title.size(), room.size() - 1);
  std::copy_n(title.begin(), length, room.begin());
  std::fill(room.begin() + static_cast<std::ptrdiff_t>(length), room.end(), '\0');
}

}  // namespace holdfast::cli
