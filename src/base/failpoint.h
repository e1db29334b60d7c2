// Names the places where two steps of a protocol meet, so that a test can stop or kill a process between them.
//
// Compiled only into tests/interleave. In every other build, the library's included, the macro is nothing.
#pragma once

#ifdef HOLDFAST_FAILPOINTS

namespace holdfast {

/// Defined by the test (tests/interleave/failpoint.cc).
void reach_failpoint(const char* name) noexcept;

}  // namespace holdfast

#define HOLDFAST_FAILPOINT(name) ::holdfast::reach_failpoint(name)

#else

#define HOLDFAST_FAILPOINT(name) static_cast<void>(0)

#endif
