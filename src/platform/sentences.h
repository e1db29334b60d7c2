// What failed last in the calling thread, in one English sentence.
//
// A thread may call the library until its very end, after the destructors of its thread-local objects and with no
// memory to be had. So nothing thread-local here has a destructor: a thread keeps a pointer to room for its sentences,
// and a key of pthreads gives the room back.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::platform {

/// Bytes of a sentence, the zero byte included. A longer one is cut behind a word and ends in "...".
inline constexpr std::size_t kSentenceBytes = 768;

/// Keeps a copy. Where there is no memory for it, a fixed sentence that says so.
void keep_sentence(std::string_view text) noexcept;
/// Needs no memory: `text` lives as long as the process.
void keep_literal(const char* text) noexcept;
/// As printf makes it. Where there is no memory for it, `instead`, a literal.
void keep_formatted(const char* instead, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
/// Never null; "" if there is none. May have moved when the next one is kept.
const char* kept_sentence() noexcept;
/// The same in a place that all further sentences of the thread are kept in: a pointer that was got before a failure
/// shows the sentence about it. Where there is no memory for a place, as kept_sentence().
const char* lasting_sentence() noexcept;

}  // namespace holdfast::platform
