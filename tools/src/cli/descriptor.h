#pragma once

#include "inspect/descriptor.h"

namespace holdfast::cli {

using inspect::close_between;
using inspect::Descriptor;

}  // namespace holdfast::cli
