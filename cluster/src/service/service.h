// A running agent, from its start to its end, for one world (runtime directory) and one cluster.
#pragma once

#include <string>

#include "platform/platform.h"
#include "service/config.h"
#include "service/store_memory.h"
#include "world/world.h"

namespace holdfast::agent {

/// Writes a line to standard error in a single write. If nobody reads standard error, drops the line, because the log
/// must neither end nor block the agent.
void say(const std::string& sentence);

/// Delivers TERM, INT and HUP through a descriptor. REQUIRES: there is only one thread.
class Signals {
 public:
  Signals();
  int descriptor() const noexcept { return fd_.get(); }
  void take();

 private:
  platform::FileDescriptor fd_;
};

/// Waits until no other agent of the cluster acts for this world. Returns false if a signal arrives first.
bool await_vacancy(const RuntimeDirectory& directory, const std::string& cluster, const Signals& signals);

/// Serves the locks of the cluster until a signal arrives or another agent takes over. Returns the exit status.
/// `known`: the store's id that an earlier agent has stored in `memory`.
int serve(const Config& config, World& world, Signals& signals, bool drains, const StoreMemory& memory,
          const std::string& known);

}  // namespace holdfast::agent
