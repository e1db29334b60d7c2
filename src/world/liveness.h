// What is known about the life of a process.
#pragma once

namespace holdfast {

/// unknown: the kernel cannot be asked. Who needs to know must say so, and take nothing from anybody.
enum class Liveness { dead, alive, unknown };

}  // namespace holdfast
