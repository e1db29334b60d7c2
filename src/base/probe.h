// Static probes for tracers such as bpftrace (USDT, provider "holdfast"). A probe is a nop in the code, and a note in
// the library with its address and the locations of its arguments. docs/tracing.md lists them.
//
// Arguments must have no side effects: if SystemTap's header was missing at build time, they are not evaluated. A
// dictionary's name is a C string; a key is a pointer and a length.
#pragma once

#if HOLDFAST_PROBES

#include <sys/sdt.h>

#define HOLDFAST_PROBE4(name, a, b, c, d) STAP_PROBE4(holdfast, name, a, b, c, d)
#define HOLDFAST_PROBE5(name, a, b, c, d, e) STAP_PROBE5(holdfast, name, a, b, c, d, e)
#define HOLDFAST_PROBE6(name, a, b, c, d, e, f) STAP_PROBE6(holdfast, name, a, b, c, d, e, f)

#else

#define HOLDFAST_PROBE4(name, ...) static_cast<void>(0)
#define HOLDFAST_PROBE5(name, ...) static_cast<void>(0)
#define HOLDFAST_PROBE6(name, ...) static_cast<void>(0)

#endif
