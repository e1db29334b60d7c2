#include "platform/sentences.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace holdfast::platform {

namespace {

struct Room {
  std::atomic<bool> taken;
  std::array<char, kSentenceBytes> sentence;
};

struct Kept {
  Room* room;           // null: not needed yet, or no memory
  const char* literal;  // the message if there is no room; null: no message
};
constinit thread_local Kept kept{};
static_assert(std::is_trivially_destructible_v<decltype(kept)>);

// The number of static rooms. The first threads take these rooms, so they need no memory from the heap.
constexpr std::size_t kPrepared = 16;
constinit std::array<Room, kPrepared> prepared{};

bool is_prepared(const Room* room) noexcept { return room >= prepared.data() && room < prepared.data() + kPrepared; }

void give_back(Room* room) noexcept {
  // Release: pairs with the acquire in take_room().
  if (is_prepared(room)) {
    room->taken.store(false, std::memory_order_release);
  } else {
    std::free(room);  // NOLINT(cppcoreguidelines-no-malloc): malloc fails without throwing
  }
}

// Gives the room back when a thread ends. If a call fails later, in the destructor of another key, the thread takes a
// room again, and this function runs again.
void end_of_thread(void* room) noexcept {
  kept = {};
  give_back(static_cast<Room*>(room));
}

struct Key {
  pthread_key_t key;
  bool made;
};

// The key is made when the library is loaded, and is never deleted, because threads also end while the process runs its
// exit handlers, and afterwards.
const Key kRoomKey = [] {
  Key made{};
  made.made = ::pthread_key_create(&made.key, &end_of_thread) == 0;
  return made;
}();

Room* take_room() noexcept {
  for (Room& room : prepared) {
    bool free = false;
    // Acquire: pairs with the release in give_back(). The last owner has finished with the room.
    if (!room.taken.load(std::memory_order_relaxed) &&
        room.taken.compare_exchange_strong(free, true, std::memory_order_acquire, std::memory_order_relaxed)) {
      return &room;
    }
  }
  return static_cast<Room*>(std::calloc(1, sizeof(Room)));  // NOLINT(cppcoreguidelines-no-malloc)
}

// Copies the literal that was kept without a room. The literal fits, because no literal is longer than a source line.
void move_in(Room& room) noexcept {
  std::snprintf(room.sentence.data(), kSentenceBytes, "%s", kept.literal != nullptr ? kept.literal : "");
}

// Returns the thread's room, or null if there is no memory, or if nothing would free the room at the end of the thread.
Room* room_of_this_thread() noexcept {
  if (kept.room != nullptr || !kRoomKey.made) return kept.room;
  Room* const room = take_room();
  if (room == nullptr) return nullptr;
  if (::pthread_setspecific(kRoomKey.key, room) != 0) {
    give_back(room);
    return nullptr;
  }
  move_in(*room);
  return kept.room = room;
}

// Cuts a message that is too long. `length` is the length of the whole message; `text` contains as much of it as fits.
void cut(char* text, std::size_t length) noexcept {
  constexpr std::string_view kEllipsis = "...";
  if (length < kSentenceBytes) return;
  std::size_t end = kSentenceBytes - 1 - kEllipsis.size();
  const std::size_t longest = end;
  while (end > longest / 2 && text[end] != ' ') --end;
  if (text[end] != ' ') {  // without a blank, cut between two UTF-8 characters
    end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  }
  std::memcpy(text + end, kEllipsis.data(), kEllipsis.size());
  text[end + kEllipsis.size()] = '\0';
}

}  // namespace

void keep_literal(const char* text) noexcept {
  if (kept.room != nullptr)
    keep_sentence(text);
  else
    kept.literal = text;
}

void keep_nothing() noexcept {
  if (kept.room != nullptr)
    kept.room->sentence[0] = '\0';
  else
    kept.literal = nullptr;
}

void keep_sentence(std::string_view text) noexcept {
  if (text.empty()) return keep_nothing();
  Room* const room = room_of_this_thread();
  if (room == nullptr) return keep_literal("a call failed, and there is no memory for its message");
  char* const to = room->sentence.data();
  const std::size_t fits = text.size() < kSentenceBytes ? text.size() : kSentenceBytes - 1;
  std::memmove(to, text.data(), fits);
  to[fits] = '\0';
  cut(to, text.size());
}

void keep_formatted(const char* instead, const char* format, ...) noexcept {
  Room* const room = room_of_this_thread();
  if (room == nullptr) return keep_literal(instead);
  char* const to = room->sentence.data();
  va_list values;
  va_start(values, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above
  const int length = std::vsnprintf(to, kSentenceBytes, format, values);
  va_end(values);
  if (length < 0) return keep_literal(instead);
  cut(to, static_cast<std::size_t>(length));
}

const char* kept_sentence() noexcept {
  if (kept.room != nullptr) return kept.room->sentence.data();
  return kept.literal != nullptr ? kept.literal : "";
}

const char* lasting_sentence() noexcept {
  room_of_this_thread();
  return kept_sentence();
}

}  // namespace holdfast::platform
