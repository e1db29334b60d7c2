#include "agent/history.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "agent/machine.h"

namespace holdfast::test {

using agent::LeaseId;
using agent::LockName;
using agent::Record;
using agent::Revision;

namespace {

std::string describe(const Section& section) {
  return section.name.key + " by machine " + std::to_string(section.machine) + ", token " +
         std::to_string(section.token) + ", asked " + std::to_string(section.asked) + ", from " +
         std::to_string(section.from) + " until " + std::to_string(section.until);
}

/// Checks that no two programs had one lock at the same time. The sections are sorted by `from`.
void check_times(const std::vector<Section>& sections, std::vector<std::string>& errors) {
  const Section* longest = nullptr;
  for (const Section& section : sections) {
    if (section.until < section.from) continue;
    if (longest != nullptr && section.from < longest->until)
      errors.push_back("two programs have a lock: " + describe(*longest) + "; " + describe(section));
    if (longest == nullptr || section.until > longest->until) longest = &section;
  }
}

/// Checks the tokens of one lock. A program that requests the lock after another program got it must get a higher
/// token.
void check_token_order(std::vector<Section> sections, std::vector<std::string>& errors) {
  std::sort(sections.begin(), sections.end(), [](const Section& a, const Section& b) { return a.token > b.token; });
  const Section* earliest = nullptr;  // among sections with higher tokens
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    if (i > 0 && sections[i - 1].token == section.token)
      errors.push_back("two grants have one token: " + describe(sections[i - 1]) + "; " + describe(section));
    if (earliest != nullptr && section.asked > earliest->from)
      errors.push_back("a token does not rise: " + describe(*earliest) + "; " + describe(section));
    if (earliest == nullptr || section.from < earliest->from) earliest = &section;
  }
}

using Writers = std::unordered_map<std::uint64_t, const Update*>;

Writers writers_of(const std::vector<Update>& updates) {
  Writers writers;
  for (const Update& update : updates)
    if (update.writes()) writers[update.written] = &update;
  return writers;
}

/// Returns the chain of values that leads to the last value.
std::vector<std::uint64_t> chain_to(std::uint64_t last, std::uint64_t first, const Writers& writers) {
  std::vector<std::uint64_t> chain{last};
  while (chain.back() != first && chain.size() <= writers.size()) {
    const auto writer = writers.find(chain.back());
    if (writer == writers.end()) break;
    chain.push_back(writer->second->read);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace

std::vector<std::string> check_sections(std::vector<Section> sections) {
  std::sort(sections.begin(), sections.end(), [](const Section& a, const Section& b) { return a.from < b.from; });
  std::map<LockName, std::vector<Section>> by_name;
  for (Section& section : sections) by_name[section.name].push_back(std::move(section));
  std::vector<std::string> errors;
  for (const auto& [name, of_lock] : by_name) {
    check_times(of_lock, errors);
    check_token_order(of_lock, errors);
  }
  return errors;
}

std::size_t count_lost(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last) {
  const Writers writers = writers_of(updates);
  const auto written = static_cast<std::size_t>(
      std::count_if(updates.begin(), updates.end(), [](const Update& update) { return update.writes(); }));
  return written - (chain_to(last, first, writers).size() - 1);
}

std::vector<std::string> check_updates(const std::vector<Update>& updates, std::uint64_t first, std::uint64_t last) {
  std::vector<std::string> errors;
  const std::vector<std::uint64_t> chain = chain_to(last, first, writers_of(updates));
  if (chain.front() != first) errors.push_back("nobody wrote the value " + std::to_string(chain.front()));
  if (const std::size_t lost = count_lost(updates, first, last); lost != 0)
    errors.push_back("lost updates: " + std::to_string(lost));
  if (!errors.empty()) return errors;

  std::unordered_map<std::uint64_t, std::size_t> place;
  for (std::size_t i = 0; i < chain.size(); ++i) place[chain[i]] = 2 * i;
  // Lists the writer of each value, and then the value's readers, in any order.
  std::map<std::size_t, std::vector<const Update*>> order;
  for (const Update& update : updates) {
    const auto found = place.find(update.written);
    if (found == place.end())
      errors.push_back("a value was read that nobody wrote: " + std::to_string(update.read));
    else
      order[found->second + (update.writes() ? 0 : 1)].push_back(&update);
  }
  std::int64_t latest = std::numeric_limits<std::int64_t>::min();
  for (const auto& [at, together] : order) {
    for (const Update* update : together)
      if (update->end < latest)
        errors.push_back("the value " + std::to_string(update->written) + " was seen too late or too early: at " +
                         std::to_string(update->end) + ", before an earlier update had begun");
    for (const Update* update : together) latest = std::max(latest, update->begin);
  }
  return errors;
}

void StoreHistory::add(const Record& event) {
  if (const auto name = keys_.lock_of(event.key)) {
    if (event.modified != 0) return put_lock(*name, event);
    locks_[*name].holder = 0;
  } else if (const auto queue = keys_.queue_of(event.key)) {
    const LeaseId lease = *keys_.waiter_of(event.key);
    Lock& lock = locks_[*queue];
    if (event.modified != 0) return put_place(lock, lease, event);
    std::erase_if(lock.queue, [lease](const auto& place) { return place.second.lease == lease; });
  } else if (event.key.starts_with(bells_) && event.modified == 0) {
    ++ended_leases_;
  }
}

void StoreHistory::put_place(Lock& lock, LeaseId lease, const Record& event) {
  Place& place = lock.queue[event.created];
  place.lease = lease;
  const bool by_giver = lock.giver == lease && lock.given == event.modified;
  place.is_old = place.is_old || (by_giver && event.created < event.modified);
}

// A former holder's old queue entry may count from its creation, or from the moment when the holder gave the lock away.
bool StoreHistory::is_first(const Lock& lock, LeaseId lease, LeaseId holder) {
  for (const auto& [created, place] : lock.queue) {
    if (place.lease == lease) return true;
    if (!place.is_old && place.lease != holder) return false;
  }
  return false;
}

// A put by the current holder does not change the owner. It only renews the lock's revision.
void StoreHistory::put_lock(const LockName& name, const Record& event) {
  Lock& lock = locks_[name];
  grants_[event.modified].push_back({name, event.lease});
  const LeaseId holder = std::exchange(lock.holder, event.lease);
  if (holder == event.lease) return;
  lock.giver = holder;
  lock.given = event.modified;
  if (holder != 0) ++transfers_;
  const bool in_turn = is_first(lock, event.lease, holder);
  const std::string at = name.key + " at revision " + std::to_string(event.modified);
  if (holder != 0 && !in_turn) errors_.push_back("a lock went to a machine that was not the first in its queue: " + at);
  if (holder == 0 && !lock.queue.empty() && !in_turn) errors_.push_back("a free lock was taken past waiters: " + at);
}

std::vector<std::string> StoreHistory::check_tokens(const std::vector<Section>& sections) const {
  std::vector<std::string> errors;
  for (const Section& section : sections) {
    if (section.lease == 0) continue;
    const auto revision = static_cast<Revision>(section.token / (agent::kGrantsMax + 1));
    const auto found = grants_.find(revision);
    const bool is_there =
        found != grants_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Granted& granted) {
          return granted.name == section.name && granted.lease == section.lease;
        });
    if (!is_there) errors.push_back("the store gave no grant for " + describe(section));
  }
  return errors;
}

}  // namespace holdfast::test
