#include <cstring>
// In C++, clang has no _Bool, which this header uses.
#if defined(__x86_64__) && !defined(__clang__) && __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#endif

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

// The benchmarks for these constants are "set, one string of 1 KB" and "set, 10k strings of 1 KB".
[[maybe_unused]] constexpr std::size_t kChunkWords = 8;
[[maybe_unused]] constexpr std::size_t kWideChunkWords = 16;

// Sanitizers do not see the accesses of assembly code.
#if defined(HOLDFAST_SANITIZED) || !(defined(__x86_64__) || defined(__aarch64__))
#define HOLDFAST_COPY_BY_WORDS
#elif defined(__x86_64__)
// From this number of words, the string instruction is faster, although it is slow to start.
constexpr std::size_t kStringWords = 256;
// The same limit for copies with 32-byte registers, and the number of words from which these registers are used.
// Without them, setting a value of 1 KB takes an eighth longer.
constexpr std::size_t kStringWordsWide = 512;
constexpr std::size_t kWideWords = 32;

/// Says whether the processor has 32-byte registers and the kernel saves them. It is false until the library is
/// initialised. The answer comes from the C library, because asking the processor takes microseconds in a virtual
/// machine.
#ifdef CPU_FEATURE_ACTIVE
const bool kHasWideRegisters = CPU_FEATURE_ACTIVE(AVX);
#else
const bool kHasWideRegisters = __builtin_cpu_supports("avx") != 0;
#endif

void copy_string(void* to, const void* from, std::size_t words) noexcept {
  asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words)::"memory");
}

void copy_chunk(void* to, const void* from) noexcept {
  asm volatile(
      "movdqu (%1), %%xmm0\n\tmovdqu 16(%1), %%xmm1\n\tmovdqu 32(%1), %%xmm2\n\tmovdqu 48(%1), %%xmm3\n\t"
      "movdqu %%xmm0, (%0)\n\tmovdqu %%xmm1, 16(%0)\n\tmovdqu %%xmm2, 32(%0)\n\tmovdqu %%xmm3, 48(%0)"
      :
      : "r"(to), "r"(from)
      : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}

std::size_t copy_chunks_wide(void* to, const void* from, std::size_t words) noexcept {
  const std::size_t copied = words & ~(kWideChunkWords - 1);
  for (std::size_t chunks = copied / kWideChunkWords; chunks != 0; --chunks)
    asm volatile(
        "vmovdqu (%1), %%ymm0\n\tvmovdqu 32(%1), %%ymm1\n\tvmovdqu 64(%1), %%ymm2\n\tvmovdqu 96(%1), %%ymm3\n\t"
        "vmovdqu %%ymm0, (%0)\n\tvmovdqu %%ymm1, 32(%0)\n\tvmovdqu %%ymm2, 64(%0)\n\tvmovdqu %%ymm3, 96(%0)\n\t"
        "sub $-128, %0\n\tsub $-128, %1"
        : "+r"(to), "+r"(from)
        :
        : "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");
  // Clear the upper halves of all vector registers, which code built for AVX may have used.
  asm volatile("vzeroupper" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                     "xmm12", "xmm13", "xmm14", "xmm15", "memory");
  return copied;
}
#else
void copy_chunk(void* to, const void* from) noexcept {
  asm volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\tstp q0, q1, [%0]\n\tstp q2, q3, [%0, #32]"
               :
               : "r"(to), "r"(from)
               : "v0", "v1", "v2", "v3", "memory");
}
#endif

#ifndef HOLDFAST_COPY_BY_WORDS
std::size_t copy_chunks(void* to, const void* from, std::size_t words) noexcept {
#ifdef __x86_64__
  if (words >= (kHasWideRegisters ? kStringWordsWide : kStringWords)) {
    copy_string(to, from, words);
    return words;
  }
  std::size_t done = kHasWideRegisters && words >= kWideWords ? copy_chunks_wide(to, from, words) : 0;
#else
  std::size_t done = 0;
#endif
  for (; words - done >= kChunkWords; done += kChunkWords)
    copy_chunk(static_cast<char*>(to) + done * 8, static_cast<const char*>(from) + done * 8);
  return done;
}
#endif

}  // namespace

void copy_to_shared(std::atomic<std::uint64_t>* to, const char* from, std::size_t words) noexcept {
  std::size_t done = 0;
#ifndef HOLDFAST_COPY_BY_WORDS
  done = copy_chunks(to, from, words);
#endif
  for (; done < words; ++done) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + done * 8, 8);
    to[done].store(word, std::memory_order_relaxed);
  }
}

void copy_from_shared(char* to, const std::atomic<std::uint64_t>* from, std::size_t words) noexcept {
  std::size_t done = 0;
#ifndef HOLDFAST_COPY_BY_WORDS
  done = copy_chunks(to, from, words);
#endif
  for (; done < words; ++done) {
    const std::uint64_t word = from[done].load(std::memory_order_relaxed);
    std::memcpy(to + done * 8, &word, 8);
  }
}

}  // namespace holdfast::platform
