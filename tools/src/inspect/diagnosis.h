// All checks of a world, one after the other: what `holdfast doctor` says.
#pragma once

#include <functional>
#include <string>

#include "inspect/health.h"
#include "inspect/json.h"

namespace holdfast::inspect {

/// Which processes have the files of that directory open.
using LookAtOpeners = std::function<Openers(const std::string& directory)>;

/// Gathers what there is, and adds what stands in the way of more.
Patient gather(const LookAtOpeners& openers, Findings& findings);

/// Adds what is wrong with it. The worst stand first.
Findings examine(Patient& patient, Findings findings);

/// Of findings that examine() gave; note: all is well.
Severity worst_of(const Findings& findings) noexcept;

Json to_json(const Patient& patient, const Findings& findings);

}  // namespace holdfast::inspect
