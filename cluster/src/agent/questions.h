// Answers questions of local programs for which the agent must ask the store: does this machine still have a lock, and
// which machine holds it? Also breaks grants.
#pragma once

#include <string>

#include "agent/keys.h"
#include "agent/machine.h"
#include "agent/protocol.h"
#include "agent/store.h"

namespace holdfast::agent {

class Questions {
 public:
  Questions(Store& store, Machine& machine, const Keys& keys) : store_(store), machine_(machine), keys_(keys) {}

  void ask(const Query& query);

 private:
  void verify(const Query& query);
  void find_holder(const Query& query);
  void name_holder(const Query& query, const Record& lock);
  void break_lock(const Query& query, int round);
  /// Breaks the grant that `view` shows. `ring`: also notifies the holder's machine, whose lease may be dead.
  void break_seen(const Query& query, const View& view, bool ring, int round);
  /// Returns whether the store answered. If not, sends a reply which says so.
  bool answered(const Query& query, const Answer& answer);
  void reply(const Query& query, Reply::Code code, std::string sentence = {});

  Store& store_;
  Machine& machine_;
  const Keys& keys_;
};

}  // namespace holdfast::agent
