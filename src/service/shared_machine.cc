#include "service/shared_machine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "lock/lock.h"
#include "lock/lock_info.h"
#include "lock/standing.h"
#include "world/process_table.h"

namespace holdfast::agent {

namespace {

constexpr Milliseconds kIdleMs = 1000;  // between looks for what no notice came of
constexpr std::size_t kUsersLookedAt = 64;

Milliseconds now_ms() noexcept { return static_cast<Milliseconds>(boottime_ms()); }

holdfast::Session session_of(Dictionary& dictionary) { return dictionary.segment()->session(); }

/// The epochs of shared memory have 16 bits; 0 is of no lease.
constexpr std::uint16_t narrow(Epoch epoch) noexcept { return static_cast<std::uint16_t>(epoch); }
constexpr Epoch after(Epoch epoch) noexcept { return narrow(epoch + 1) != 0 ? narrow(epoch + 1) : 1; }

}  // namespace

SharedMachine::SharedMachine(World& world, const std::string& cluster)
    : world_(world),
      self_(world.token()),
      dictionaries_(world, cluster),
      questions_(world.directory(), cluster),
      parker_(world) {
  waiter_ = parker_.open_waiter();
  if (self_ == kNobody || waiter_ == 0 || !parker_.descriptor())
    throw std::system_error(ENOMEM, std::generic_category(), "the agent cannot wait in this world");
  dictionaries_.refresh();
  attend();
}

SharedMachine::~SharedMachine() {
  for (auto& [name, recall] : recalls_) close(recall);
}

std::vector<int> SharedMachine::descriptors() {
  const auto woken = parker_.descriptor();
  return {woken ? *woken : -1, dictionaries_.descriptor(), questions_.descriptor()};
}

// --- the session ---

void SharedMachine::attend() {
  parker_.begin(waiter_, self_);
  for (const auto& [name, dictionary] : dictionaries_.all()) session_of(*dictionary).attend(self_, waiter_);
}

bool SharedMachine::superseded() const {
  return std::any_of(dictionaries_.all().begin(), dictionaries_.all().end(), [this](const auto& one) {
    const Segment* const segment = one.second->segment();
    const Token agent = segment != nullptr ? segment->session().agent() : kNobody;
    return agent != kNobody && agent != self_;
  });
}

Session SharedMachine::session() const {
  Session all;
  bool first = true;
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const Segment* const segment = dictionary->segment();
    if (segment == nullptr) continue;
    const SessionWord word = segment->session().now();
    const auto lease = static_cast<LeaseId>(segment->session().lease());
    if (word.epoch() == 0) continue;  // it has had none yet
    const bool same = first || (word.epoch() == all.epoch && lease == all.lease);
    const auto deadline = static_cast<Milliseconds>(word.deadline_ms());
    all.lost = word.lost() || !same || (!first && all.lost);
    all.deadline = first ? deadline : std::min(all.deadline, deadline);
    all.epoch = std::max<Epoch>(all.epoch, word.epoch());
    all.lease = lease;
    first = false;
  }
  return first ? alone_ : all;
}

Epoch SharedMachine::begin_epoch(LeaseId lease, Milliseconds deadline) {
  if (superseded()) return 0;
  Epoch last = alone_.epoch;
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const holdfast::Session session = session_of(*dictionary);
    const SessionWord word = session.now();
    session.lose(word.epoch());
    last = std::max<Epoch>(last, word.epoch());
  }
  const Epoch epoch = after(last);
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const holdfast::Session session = session_of(*dictionary);
    const SessionWord word = session.now();
    if (!word.lost() || word.epoch() == narrow(epoch)) return 0;  // of a later agent
    // Of 65,535 epochs ago.
    for (const std::string& key : standing_keys(*dictionary, narrow(epoch))) holdfast::drop(*dictionary, key);
    if (!session.begin(word, narrow(epoch), static_cast<std::uint64_t>(lease), static_cast<std::uint64_t>(deadline)))
      return 0;
  }
  alone_ = {.epoch = epoch, .lease = lease, .deadline = deadline, .lost = false};
  look_at_all_ = true;
  return epoch;
}

bool SharedMachine::renew(Milliseconds from, Milliseconds to) {
  if (superseded()) return false;
  const Session all = session();
  if (all.lost) return false;
  bool renewed = true;
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const SessionWord expected = SessionWord::make(narrow(all.epoch), static_cast<std::uint64_t>(from));
    if (!session_of(*dictionary).renew(expected, static_cast<std::uint64_t>(to))) renewed = false;
  }
  alone_ = {.epoch = all.epoch, .lease = all.lease, .deadline = to, .lost = false};
  if (!renewed) lose(all.epoch);
  return renewed;
}

void SharedMachine::lose(Epoch epoch) {
  if (superseded()) return;
  for (const auto& [name, dictionary] : dictionaries_.all()) session_of(*dictionary).lose(narrow(epoch));
  if (alone_.epoch == epoch) alone_.lost = true;
  for (auto& [name, recall] : recalls_) close(recall);
  recalls_.clear();
}

// A dictionary that was made, or made again, since the last turn.
void SharedMachine::take_in_new() {
  const Session all = session();
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const Segment* const segment = dictionary->segment();
    if (segment == nullptr || segment->session().agent() != kNobody) continue;
    const holdfast::Session session = segment->session();
    session.attend(self_, waiter_);
    look_at_all_ = true;
    if (const SessionWord word = session.now(); !all.lost && word.epoch() == 0)
      session.begin(word, narrow(all.epoch), static_cast<std::uint64_t>(all.lease),
                    static_cast<std::uint64_t>(all.deadline));
  }
}

// --- the agent's turns ---

void SharedMachine::turn() {
  dictionaries_.refresh();
  take_in_new();
  read_mail();
  const Milliseconds now = now_ms();
  std::vector<LockName> due;
  for (const auto& [name, recall] : recalls_)
    if (recall.due <= now) due.push_back(name);
  for (const LockName& name : due) {
    const auto found = recalls_.find(name);
    if (found == recalls_.end() || !step(name, found->second)) continue;
    const std::function<void()> done = std::move(found->second.done);
    close(found->second);
    recalls_.erase(found);
    done();
  }
  if (now >= next_look_) {
    look_at_all_ = true;
    next_look_ = now + kIdleMs;
  }
  due_ = next_look_;
  for (const auto& [name, recall] : recalls_) due_ = std::min(due_, recall.due);
}

void SharedMachine::read_mail() {
  std::array<std::uint32_t, 64> woken{};
  for (std::size_t count = woken.size(); count == woken.size();) {
    count = parker_.sleep(0, woken);
    for (std::size_t i = 0; i < count; ++i) {
      if (woken[i] == waiter_) {
        parker_.begin(waiter_, self_);
        continue;
      }
      for (auto& [name, recall] : recalls_)
        if (recall.waiter == woken[i]) recall.due = 0;
    }
  }
}

// A lock that does not stand is nobody's here: its entry may have been evicted.
bool SharedMachine::step(const LockName& name, Recall& recall) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr) return true;
  LockState state;
  const Code looked = state_of_lock(*dictionary, name.key, state);
  if (looked == Code::not_found || looked == Code::removed || (looked == Code::ok && !state.stands)) return true;
  double sleep = 0;
  Lease lease;
  const WaitStep step{parker_, recall.waiter, sleep};
  const Code code = lock_wait(*dictionary, name.key, {.exptime = 0, .fair = true}, step, lease);
  if (code == Code::ok) {
    withdraw(*dictionary, name.key, lease);
    return true;
  }
  if (code == Code::removed) return true;
  recall.due = now_ms() + static_cast<Milliseconds>(std::max(sleep * 1e3, 1.0));
  return false;
}

void SharedMachine::close(Recall& recall) { parker_.close_waiter(std::exchange(recall.waiter, 0)); }

// --- locks ---

std::vector<Want> SharedMachine::wanted() {
  std::vector<Want> wants;
  const bool all = std::exchange(look_at_all_, false);
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const Segment* const segment = dictionary->segment();
    if (segment == nullptr) continue;
    std::array<std::uint64_t, kWants> hashes{};
    const std::size_t count = segment->session().take_wants(hashes);
    if (count == 0 && !all) continue;
    const std::span<const std::uint64_t> hints(hashes.data(), all || count > kWants ? 0 : count);
    for (std::string& key : wanted_keys(*dictionary, hints)) {
      LockState state;
      if (state_of_lock(*dictionary, key, state) == Code::ok)
        wants.push_back({{name, std::move(key)}, contender(state.first)});
    }
  }
  return wants;
}

Contender SharedMachine::contender(Token token) const {
  Contender contender;
  if (const ProcessSlot* const slot = world_.slot(token); slot != nullptr) {
    contender.pid = slot->pid.load(kRelaxed);
    contender.program = comm_of(*slot);
  }
  return contender;
}

// The numbers of a lock that was evicted while it stood are not known any more: they count as used up.
Use SharedMachine::use(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  LockState state;
  const Code code = dictionary != nullptr ? state_of_lock(*dictionary, name.key, state) : Code::not_found;
  if (code != Code::ok) return {.known = code == Code::not_found || code == Code::removed};
  const bool waits = state.waited_for || state.tried_for;
  return {.held = state.stands && state.held,
          .waits = state.waited_for,
          .tries = state.tried_for,
          .grants = waits && !state.stands ? agent::kGrantsMax : state.grants};
}

Contender SharedMachine::holder(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  std::array<HolderInfo, 1> found{};
  HolderCount count;
  if (dictionary == nullptr || find_holders(*dictionary, name.key, found, count) != Code::ok || count.holders != 1)
    return {};
  return {found[0].pid, found[0].program.data(), found[0].reason.data()};
}

bool SharedMachine::orphaned(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  std::array<Token, kUsersLookedAt> users{};
  std::size_t count = 0;
  if (dictionary == nullptr || users_of_lock(*dictionary, name.key, users, count) != Code::ok) return false;
  return std::all_of(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(count),
                     [this](Token user) { return user == self_ || world_.is_dead(user); });
}

std::vector<LockName> SharedMachine::standing() const {
  std::vector<LockName> names;
  const Session all = session();
  for (const auto& [name, dictionary] : dictionaries_.all())
    for (std::string& key : standing_keys(*dictionary, narrow(all.epoch))) names.push_back({name, std::move(key)});
  return names;
}

bool SharedMachine::grant(const LockName& name, Epoch epoch, Revision revision) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr || superseded()) return false;
  const Session all = session();
  return !all.lost && all.epoch == epoch &&
         stand(*dictionary, name.key, narrow(epoch), static_cast<std::uint64_t>(revision)) == Code::ok;
}

void SharedMachine::refuse(const LockName& name, Refusal why) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr || superseded()) return;
  holdfast::refuse(*dictionary, name.key, why == Refusal::held ? Code::elsewhere : Code::unavailable);
}

void SharedMachine::recall(const LockName& name, std::function<void()> done) {
  if (superseded()) return;
  Recall& recall = recalls_[name];
  if (recall.waiter == 0) recall.waiter = parker_.open_waiter();
  recall.done = std::move(done);
  due_ = recall.due = 0;
}

bool SharedMachine::try_recall(const LockName& name) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  return !superseded() && (dictionary == nullptr || withdraw_idle(*dictionary, name.key) == Code::ok);
}

void SharedMachine::drop(const LockName& name) {
  if (superseded()) return;
  if (Dictionary* const dictionary = dictionaries_.find(name.dictionary)) holdfast::drop(*dictionary, name.key);
  const auto found = recalls_.find(name);
  if (found == recalls_.end()) return;
  close(found->second);
  recalls_.erase(found);
}

}  // namespace holdfast::agent
