#include "platform/bus_guard.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "platform/chunk.h"

namespace holdfast::platform {

namespace {

constexpr std::uintptr_t kFree = 0;
constexpr std::uintptr_t kBeingWritten = 1;  // no page has this address

struct Noted {
  std::atomic<std::uintptr_t> begin;  // an address, or one of the constants above
  std::atomic<std::size_t> size;
  std::atomic<std::size_t> mark_offset;
  std::atomic<std::uint32_t> mark_bits;
  std::atomic<bool> for_all;
  std::atomic<std::atomic<std::uint64_t>*> cleared;
};

using Notes = Chunk<Noted, 80>;
constinit Notes first{};

/// Returns the entry of the mapping that contains this address, or null.
Noted* find(std::uintptr_t address) noexcept {
  for (Notes* chunk = &first; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire)) {
    for (Noted& noted : chunk->items) {
      // Acquire: pairs with the release in note_mapping().
      const std::uintptr_t begin = noted.begin.load(std::memory_order_acquire);
      // Acquire: loads the size before `begin` is read again, so that both belong to one mapping.
      if (begin > kBeingWritten && address >= begin && address - begin < noted.size.load(std::memory_order_acquire) &&
          noted.begin.load(std::memory_order_relaxed) == begin) {
        return &noted;
      }
    }
  }
  return nullptr;
}

// --- the handler: async-signal-safe, any number of threads at once ---

/// Sets bits in a word that may no longer be mapped. If the word is not mapped, the kernel returns an error instead of
/// raising a signal.
void set_bits_if_there(void* word, std::uint32_t bits) noexcept {
  static constinit std::atomic<std::uint32_t> nobody_sleeps_here{0};
  const auto operation = FUTEX_OP(FUTEX_OP_OR, bits, FUTEX_OP_CMP_EQ, 0x7FF);
  ::syscall(SYS_futex, &nobody_sleeps_here, FUTEX_WAKE_OP, 0, nullptr, word, operation);
}

/// Replaces the mapping. Returns false if the kernel refuses. If two threads replace the same mapping, the second
/// replacement discards what the first thread has written there.
bool replace(Noted& noted) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that was noted, once for each loss
  auto* const begin = reinterpret_cast<std::byte*>(noted.begin.load(std::memory_order_acquire));
  const std::size_t size = noted.size.load(std::memory_order_relaxed);
  const std::size_t offset = noted.mark_offset.load(std::memory_order_relaxed);
  const std::uint32_t bits = noted.mark_bits.load(std::memory_order_relaxed);
  void* const zeros = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) return false;
  if (bits != 0) {
    reinterpret_cast<std::atomic<std::uint32_t>*>(static_cast<std::byte*>(zeros) + offset)
        ->store(bits, std::memory_order_relaxed);
    if (noted.for_all.load(std::memory_order_relaxed)) set_bits_if_there(begin + offset, bits);
  }
  // Clear the word again, because a thread that had not seen the mark may have set the word in the meantime.
  auto* const cleared = noted.cleared.load(std::memory_order_acquire);
  if (cleared != nullptr) cleared->store(0, std::memory_order_seq_cst);
  if (::mremap(zeros, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == MAP_FAILED) {
    ::munmap(zeros, size);
    return false;
  }
  if (cleared != nullptr) cleared->store(0, std::memory_order_seq_cst);
  return true;
}

struct sigaction before_guard {};
constinit std::atomic<bool> once_is_over{false};  // whether a handler with SA_RESETHAND has run

void end_as_by_default(bool from_kernel) noexcept {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &standard, nullptr);
  // If the signal came from the kernel, it comes again when the access is repeated.
  if (!from_kernel) ::raise(SIGBUS);
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  const bool from_kernel = info->si_code > 0;
  const bool has_handler = before_guard.sa_handler != SIG_DFL && before_guard.sa_handler != SIG_IGN;
  if (has_handler && ((before_guard.sa_flags & SA_RESETHAND) == 0 || !once_is_over.exchange(true))) {
    if ((before_guard.sa_flags & SA_SIGINFO) != 0) {
      before_guard.sa_sigaction(signal, info, context);
    } else {
      before_guard.sa_handler(signal);
    }
    return;
  }
  // A failed access cannot be ignored.
  if (before_guard.sa_handler != SIG_IGN || from_kernel) end_as_by_default(from_kernel);
}

void on_bus_error(int signal, siginfo_t* info, void* context) noexcept {
  const int saved = errno;
  Noted* const noted = info->si_code > 0 ? find(reinterpret_cast<std::uintptr_t>(info->si_addr)) : nullptr;
  if (noted == nullptr || !replace(*noted)) pass_on(signal, info, context);
  errno = saved;
}

}  // namespace

bool note_mapping(const void* data, std::size_t size, const LossMark& mark) noexcept {
  for (Notes* chunk = &first; chunk != nullptr; chunk = chunk->after()) {
    for (Noted& noted : chunk->items) {
      std::uintptr_t free = kFree;
      if (noted.begin.load(std::memory_order_relaxed) != kFree ||
          !noted.begin.compare_exchange_strong(free, kBeingWritten, std::memory_order_relaxed)) {
        continue;
      }
      noted.size.store(size, std::memory_order_release);  // pairs with the acquire in find()
      noted.mark_offset.store(mark.offset, std::memory_order_relaxed);
      noted.mark_bits.store(mark.bits, std::memory_order_relaxed);
      noted.for_all.store(mark.for_all, std::memory_order_relaxed);
      noted.cleared.store(nullptr, std::memory_order_relaxed);
      // Release: pairs with the acquire in find().
      noted.begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_release);
      return true;
    }
  }
  return false;
}

void forget_mapping(const void* data) noexcept {
  Noted* const noted = find(reinterpret_cast<std::uintptr_t>(data));
  if (noted != nullptr) noted->begin.store(kFree, std::memory_order_release);
}

void clear_when_lost(const void* data, std::atomic<std::uint64_t>& word) noexcept {
  Noted* const noted = find(reinterpret_cast<std::uintptr_t>(data));
  // Release: pairs with the acquire in replace().
  if (noted != nullptr) noted->cleared.store(&word, std::memory_order_release);
}

int install_bus_guard() noexcept {
  static constinit std::atomic<int> installing{0};
  struct sigaction now {};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return errno;
  const bool is_function = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
  // A handler that was installed after the guard calls the guard. If the guard called that handler back, the calls
  // would never end.
  int not_yet = 0;
  if (!installing.compare_exchange_strong(not_yet, 1) && is_function) return 0;
  if (is_function && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_bus_error) return 0;
  before_guard = now;
  struct sigaction guard {};
  guard.sa_sigaction = &on_bus_error;
  guard.sa_mask = now.sa_mask;
  // Keep the alternate stack and the signal mask of the host's handler.
  constexpr int kKept = SA_ONSTACK | SA_NODEFER | SA_RESTART;
  guard.sa_flags = SA_SIGINFO | (is_function ? now.sa_flags & kKept : SA_ONSTACK | SA_RESTART);
  if (::sigaction(SIGBUS, &guard, nullptr) == 0) return 0;
  const int error = errno;
  installing.store(0);
  return error;
}

}  // namespace holdfast::platform
