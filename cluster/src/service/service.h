// A running agent: one, from its start to its end, for one world and one cluster.
#pragma once

#include <string>

#include "platform/platform.h"
#include "service/config.h"
#include "service/store_memory.h"
#include "world/world.h"

namespace holdfast::agent {

/// Writes a line on standard error in one write. A reader that is gone or does not read must not end the agent, or stop
/// it: then nothing is said.
void say(const std::string& sentence);

/// TERM, INT and HUP as a descriptor, from its construction on. REQUIRES: there is one thread.
class Signals {
 public:
  Signals();
  int descriptor() const noexcept { return fd_.get(); }
  void take();

 private:
  platform::FileDescriptor fd_;
};

/// Waits until no other agent of the cluster acts for this world. False: a signal came before.
bool await_vacancy(const RuntimeDirectory& directory, const std::string& cluster, const Signals& signals);

/// Keeps the locks of the cluster until a signal, or until another agent does. The exit status.
/// `known`: which store an earlier agent has kept in `memory`.
int serve(const Config& config, World& world, Signals& signals, bool drains, const StoreMemory& memory,
          const std::string& known);

}  // namespace holdfast::agent
