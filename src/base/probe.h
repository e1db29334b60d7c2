// Static probes for tracers such as bpftrace (USDT, provider "holdfast"): a nop in the code, and a note in the library
// that says where it is and where its arguments are. docs/tracing.md lists them.
//
// Nothing is evaluated where the header of SystemTap was missing at build, so arguments must have no effects. Names of
// dictionaries are C strings, keys are pointer and length.
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
