// Keeps a message about the last failure of the calling thread.
//
// A thread may call the library until its very end, even after the destructors of its thread-local objects have run,
// and even when there is no memory. So no thread-local object here has a destructor. A thread keeps a pointer to a
// buffer, and the destructor of a pthread key frees the buffer.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::platform {

/// The size of a message in bytes, including the zero byte. A longer message is cut after a word and ends in "...".
inline constexpr std::size_t kSentenceBytes = 768;

/// Keeps a copy of the message. If there is no memory, keeps a fixed message that says so.
void keep_sentence(std::string_view text) noexcept;
/// Keeps the pointer. Allocates no memory. REQUIRES: `text` lives as long as the process.
void keep_literal(const char* text) noexcept;
/// Formats the message as printf does. If there is no memory, keeps the literal `instead`.
void keep_formatted(const char* instead, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
/// Returns the message, or "" if there is none; never null. The next message may have another address.
const char* kept_sentence() noexcept;
/// Returns the message. All later messages of the thread have the same address, so a pointer that was taken before a
/// failure shows the message of that failure. If there is no memory, returns the same as kept_sentence().
const char* lasting_sentence() noexcept;

}  // namespace holdfast::platform
