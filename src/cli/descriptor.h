#pragma once

#include "inspect/descriptor.h"

namespace holdfast::cli {

using inspect::Descriptor;

/// Closes all descriptors from `first` to `last`.
void close_between(unsigned first, unsigned last) noexcept;

}  // namespace holdfast::cli
