#include "inspect/descriptor.h"

#include <sys/syscall.h>

#include <algorithm>

namespace holdfast::inspect {

void close_between(unsigned first, unsigned last) noexcept {
  if (first > last) return;
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
#endif
  constexpr unsigned kMost = 65535;
  for (unsigned fd = first; fd <= std::min(last, kMost); ++fd) ::close(static_cast<int>(fd));
}

}  // namespace holdfast::inspect
