// The data about a world from which all documents are made.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "holdfast.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/openers.h"
#include "inspect/processes.h"
#include "inspect/uses.h"

namespace holdfast::serve {

inline constexpr std::size_t kKinds = 3;  // the number of kinds in holdfast_held
inline constexpr std::array<const char*, kKinds> kKindNames{"lock", "rwlock", "semaphore"};
/// The maximum number of locks to describe; further locks are only counted. Locks with waiters come first.
inline constexpr std::size_t kLocksShown = 1000;

/// The data about one dictionary, including data that `holdfast stat` does not show.
struct DictionaryView {
  inspect::Dictionary dictionary;
  std::array<holdfast_histogram, kKinds> waited{};
  std::array<holdfast_histogram, kKinds> held{};
  std::vector<holdfast_contended> contended;  // the most contended key first
  bool locks_listed = false;                  // the next four members are complete
  std::array<std::uint64_t, kKinds> holds{};  // the number of held keys of each kind
  std::uint64_t waiters = 0;
  double longest_wait = 0;               // the longest present wait, in seconds
  std::array<double, 2> longest_hold{};  // for locks without waiters, and for locks with waiters
  std::optional<inspect::Queue> queue;   // set if a queue's jobs are in the dictionary
  std::vector<std::pair<const char*, std::uint64_t>> cache_counts;
  bool in_cluster = false;
  bool is_available = false;  // the cluster grants new locks
  holdfast_cluster cluster{};
};

/// The counts of a cluster's agent, indexed by name. There are none if the agent did not answer.
struct AgentView {
  bool answered = false;
  std::map<std::string, std::string> fields;
};

struct View {
  std::string directory;
  bool is_used = true;  // false: no program has used the directory yet
  double time = 0;      // seconds since 1970
  std::vector<DictionaryView> dictionaries;
  inspect::Processes processes;
  inspect::Openers openers;
  std::vector<inspect::Lock> locks;  // at most kLocksShown
  std::uint64_t lock_count = 0;      // the number of all locks
  std::map<std::string, AgentView> agents;
  std::size_t unreadable = 0;  // the number of dictionaries that new programs cannot open
};

Expected<View> gather_view();

/// Returns a view without dictionaries. `is_used` is false if no program has used the directory yet.
Expected<View> begin_view();
/// Reads the histograms of the times for which processes waited for locks or held them.
void read_times(DictionaryView& view, holdfast_time time, std::array<holdfast_histogram, kKinds>& histograms);
/// Counts the dictionary's locks, without waiters that have died, and adds them to the view. Returns false if the
/// dictionary was removed in the meantime.
bool read_locks(DictionaryView& of, View& view);

/// Asks the agents of all clusters that have dictionaries here. Waits for at most a second in total.
void ask_agents(View& view);

}  // namespace holdfast::serve
