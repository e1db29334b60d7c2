// Keeps a message about the last failure of the calling thread.
//
// A thread may call the library until its very end: after the destructors of its thread-local objects, and when there
// is no memory. So nothing thread-local here has a destructor. A thread keeps a pointer to a buffer, and a pthread key
// frees the buffer.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::platform {

/// Size of a message in bytes, including the zero byte. A longer one is cut after a word and ends in "...".
inline constexpr std::size_t kSentenceBytes = 768;

/// Keeps a copy. Without memory, keeps a fixed message that says so.
void keep_sentence(std::string_view text) noexcept;
/// Needs no memory: `text` must live as long as the process.
void keep_literal(const char* text) noexcept;
/// Formats as printf does. Without memory, keeps `instead`, a literal.
void keep_formatted(const char* instead, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
/// Never null; "" if there is none. The next message may have another address.
const char* kept_sentence() noexcept;
/// The same at an address that all later messages of the thread share, so a pointer taken before a failure shows its
/// message. Without memory, the same as kept_sentence().
const char* lasting_sentence() noexcept;

}  // namespace holdfast::platform
