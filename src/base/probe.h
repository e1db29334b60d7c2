// Static probes for tracers such as bpftrace (USDT, provider "holdfast"). A probe consists of a nop instruction and of
// a note in the library, which contains the address of the probe and the locations of its arguments. docs/tracing.md
// lists the probes.
//
// Arguments must not have side effects, because they are not evaluated if SystemTap's header was missing at build time.
// A dictionary's name is passed as a C string, and a key is passed as a pointer and a length.
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
