// Waiting for the end of another agent, to take its place.
#pragma once

#include <string>

#include "world/runtime_directory.h"

namespace holdfast::agent {

/// Waits until no other agent of the cluster acts for this world. False: `signals` became readable before.
bool await_vacancy(const RuntimeDirectory& directory, const std::string& cluster, int signals);

}  // namespace holdfast::agent
