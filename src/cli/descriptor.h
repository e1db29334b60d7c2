#pragma once

#include "inspect/descriptor.h"

namespace holdfast::cli {

using inspect::Descriptor;

}  // namespace holdfast::cli
