// Names the points between two steps of a protocol, so that a test can stop or kill a process there.
//
// The macro is compiled only into tests/interleave. In every other build, including the library, it does nothing.
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
