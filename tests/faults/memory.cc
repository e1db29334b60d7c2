#include "faults/memory.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// The C library's own functions, under the names by which replacements can call them.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);
}

namespace {

std::atomic<holdfast::faults::AllocationPlan*> current{nullptr};

bool is_refused(std::size_t size) noexcept {
  holdfast::faults::AllocationPlan* const plan = current.load();
  if (plan == nullptr) return false;
  const std::uint64_t number = ++plan->all;
  if (plan->first == 0 || number < plan->first || (number > plan->first && !plan->from_then_on)) return false;
  if (plan->failed.fetch_add(1) == 0) plan->bytes.store(size);
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return is_refused(size) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t number, std::size_t size) {
  return is_refused(number * size) ? nullptr : __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) { return is_refused(size) ? nullptr : __libc_realloc(memory, size); }
void* memalign(std::size_t alignment, std::size_t size) {
  return is_refused(size) ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  void* const got = memalign(alignment, size);
  if (got == nullptr) return ENOMEM;
  *memory = got;
  return 0;
}
void free(void* memory) { __libc_free(memory); }

}  // extern "C"

namespace holdfast::faults {

void follow(AllocationPlan* plan) noexcept { current.store(plan); }

}  // namespace holdfast::faults
