// What is known about the life of a process.
#pragma once

namespace holdfast {

/// unknown: the kernel cannot be asked. Report that, and take nothing over.
enum class Liveness { dead, alive, unknown };

}  // namespace holdfast
