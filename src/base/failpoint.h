// Failpoints name the points between two steps of a protocol, so that a test can stop or kill a process there.
//
// The macro has an effect only in tests/interleave. In every other build, including the library, it expands to nothing.
#pragma once

#ifdef HOLDFAST_FAILPOINTS

namespace holdfast {

/// Reports that the failpoint was reached. Only the test defines this function (tests/interleave/failpoint.cc).
void reach_failpoint(const char* name) noexcept;

}  // namespace holdfast

#define HOLDFAST_FAILPOINT(name) ::holdfast::reach_failpoint(name)

#else

#define HOLDFAST_FAILPOINT(name) static_cast<void>(0)

#endif
