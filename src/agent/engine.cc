#include "agent/engine.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {

Engine::Engine(Store& store, Machine& machine, const Clock& clock, const std::string& space, Settings settings,
               std::function<void(const std::string&)> warn)
    : machine_(machine),
      settings_(std::move(settings)),
      keys_(space),
      locks_(store, machine, clock, keys_, settings_),
      keeper_(store, machine, clock, keys_, settings_,
              {[this](LeaseId lease, Epoch epoch) { locks_.begin(lease, epoch); },
               [this](LeaseId lease, Epoch epoch, const std::vector<std::string>& keys) {
                 locks_.adopt(lease, epoch, keys);
               },
               [this] { locks_.end(); }, [this](const Record& bell) { locks_.ring(bell); }}),
      questions_(store, machine, keys_),
      housekeeping_(store, machine, locks_, clock, std::move(warn)) {
  locks_.on_dead_lease([this] { keeper_.suspect(); });
}

void Engine::step() {
  if (machine_.superseded()) return;
  keeper_.step();
  for (const Query& query : machine_.queries()) questions_.ask(query);
  // Without a lease, wants stay where they are: they are asked for once there is one.
  if (keeper_.alive())
    for (const Want& want : machine_.wanted()) locks_.want(want);
  locks_.step();
  if (keeper_.alive()) housekeeping_.step();
}

Milliseconds Engine::due() const {
  const Milliseconds due = std::min(keeper_.due(), locks_.due());
  return keeper_.alive() ? std::min(due, housekeeping_.due()) : due;
}

bool Engine::idle() const {
  const std::vector<LockName> standing = machine_.standing();
  return std::none_of(standing.begin(), standing.end(), [this](const LockName& name) {
    const Use use = machine_.use(name);
    return use.held || use.waits || use.tries;
  });
}

}  // namespace holdfast::agent
