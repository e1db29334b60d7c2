// Tells the dictionary's statistics what became of a request or a hold (dict/statistics.h).
//
// REQUIRES, for every call: the thread holds no shmtx.
#pragma once

#include <cstdint>
#include <string_view>

#include "dict/dictionary.h"

namespace holdfast {

/// The end of a wait that began at `arrival_ns`. `in_vain`: it got nothing.
void count_wait(Dictionary& dictionary, std::string_view key, HeldKind kind, std::uint64_t arrival_ns,
                bool in_vain) noexcept;
/// An attempt that did not wait found something held.
void count_refusal(Dictionary& dictionary, std::string_view key, HeldKind kind) noexcept;
/// A hold that was given back just now.
void count_hold(Dictionary& dictionary, HeldKind kind, Since since) noexcept;

}  // namespace holdfast
