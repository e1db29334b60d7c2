// What is known about the life of a process.
//
// The proof is the record lock on its slot (world/process_table.h), which ends with its memory map. So a killed process
// counts as alive until the kernel has freed its memory: 0.2 to 0.3 s for each GB, longer with a core dump. A child of
// vfork or posix_spawn that has not called exec yet uses the same memory and keeps it, too. A pidfd is no earlier.
#pragma once

namespace holdfast {

/// unknown: the kernel cannot be asked. Report that, and take nothing over.
enum class Liveness { dead, alive, unknown };

}  // namespace holdfast
