#include "service/shared_machine.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "gate/cluster_lock.h"
#include "lock/acquire.h"
#include "lock/lock_info.h"
#include "lock/release.h"
#include "world/process_table.h"

namespace holdfast::agent {

namespace {

static_assert(agent::kGrantsMax == holdfast::kGrantsMax && kRevisionEnd == kRevisionMax + 1);

// The interval of checks for changes that cause no notification. The benchmark "processor of an idle agent" depends on
// it.
constexpr Milliseconds kIdleMs = 1000;
// If a stopped process has prevented a call, the call is repeated after this pause. No benchmark depends on it.
constexpr Milliseconds kStuckMs = 50;
constexpr std::size_t kUsersLookedAt = 64;

Milliseconds now_ms() noexcept { return static_cast<Milliseconds>(boottime_ms()); }

/// Returns whether a stopped process has prevented the call, so that it must be repeated.
constexpr bool is_stuck(Code code) noexcept {
  return code == Code::timeout || code == Code::busy || code == Code::system;
}

constexpr Code code_of(Refusal why) noexcept {
  if (why == Refusal::held) return Code::elsewhere;
  return why == Refusal::unavailable ? Code::unavailable : Code::unsupported;
}

// Both enums have the same values in the same order.
static_assert(static_cast<int>(Trouble::draining) == static_cast<int>(StoreTrouble::draining));
constexpr StoreTrouble in_memory(Trouble trouble) noexcept { return static_cast<StoreTrouble>(trouble); }

/// An epoch in shared memory has 16 bits; 0 means no lease.
constexpr std::uint16_t narrow(Epoch epoch) noexcept { return static_cast<std::uint16_t>(epoch); }
constexpr Epoch after(Epoch epoch) noexcept { return narrow(epoch + 1) != 0 ? narrow(epoch + 1) : 1; }
/// Returns whether `epoch` is later than `than`. Epochs wrap around, so the shorter distance decides.
constexpr bool is_later(Epoch epoch, Epoch than) noexcept {
  return epoch != 0 && (than == 0 || static_cast<std::int16_t>(narrow(epoch - than)) > 0);
}

/// Combines the session of a dictionary with the sessions of other dictionaries. The result is lost if any session is
/// lost or differs. A dictionary that has no session yet does not count.
void add(Session& all, const Segment& segment) noexcept {
  const SessionWord word = holdfast::Session(segment).now();
  if (word.epoch() == 0) return;
  const auto lease = static_cast<LeaseId>(holdfast::Session(segment).lease());
  const auto deadline = static_cast<Milliseconds>(word.deadline_ms());
  if (all.epoch == 0) {
    all = {.epoch = word.epoch(), .lease = lease, .deadline = deadline, .lost = word.lost()};
    return;
  }
  all.lost = all.lost || word.lost() || word.epoch() != all.epoch || lease != all.lease;
  all.deadline = std::min(all.deadline, deadline);
  if (is_later(word.epoch(), all.epoch)) {
    all.epoch = word.epoch();
    all.lease = lease;
  }
}

}  // namespace

SharedMachine::SharedMachine(World& world, const std::string& cluster)
    : world_(world),
      self_(world.token()),
      dictionaries_(world, cluster),
      questions_(world.directory(), cluster),
      parker_(world) {
  waiter_ = parker_.open_waiter();
  if (self_ == kNobody || waiter_ == 0 || !parker_.descriptor())
    throw std::system_error(ENOMEM, std::generic_category(), "the agent cannot wait in this runtime directory");
  parker_.begin(waiter_, self_);
  dictionaries_.refresh();
  take_in_new();
}

// Leaves the waiters in the queues, where they will soon count as waiters of a dead process.
SharedMachine::~SharedMachine() {
  for (const auto& [name, recall] : recalls_) parker_.close_waiter(recall.waiter);
  for (const auto& [name, recall] : leaves_) parker_.close_waiter(recall.waiter);
}

std::vector<int> SharedMachine::descriptors() {
  const auto woken = parker_.descriptor();
  std::vector<int> found{woken ? *woken : -1, dictionaries_.descriptor(), questions_.descriptor()};
  std::erase(found, -1);
  return found;
}

// --- the session ---

// Skips removed dictionaries. A dictionary may be removed at any time, even while a callback of the store runs.
template <class Visit>
void SharedMachine::each(Visit&& visit) const {
  for (const auto& [name, part] : parts_)
    if (part.dictionary->segment(EpochGuard()) == part.segment.get()) visit(*part.dictionary, *part.segment);
}

bool SharedMachine::superseded() const {
  bool superseded = parts_.empty() && replaced_;
  each([&](const Dictionary&, const Segment& segment) {
    const Token agent = holdfast::Session(segment).agent();
    if (agent != kNobody && agent != self_) superseded = true;
  });
  return superseded;
}

bool SharedMachine::is_abandoned() const {
  bool lives = parts_.empty();  // without dictionaries, check_socket() has found a living agent
  each([&](const Dictionary&, const Segment& segment) {
    const Token agent = holdfast::Session(segment).agent();
    if (agent != kNobody && agent != self_ && world_.judge(agent) != Liveness::dead) lives = true;
  });
  return superseded() && !lives;
}

Session SharedMachine::session() const {
  Session all;
  each([&](const Dictionary&, const Segment& segment) { add(all, segment); });
  return all.epoch != 0 ? all : alone_;
}

namespace {

constexpr std::uint64_t kDropNs = 10'000'000;

/// Begins a session in a dictionary that has no session, or a lost one. Returns false if another agent has begun its
/// own session, or if a process is stopped in the dictionary.
bool begin_in(Dictionary& dictionary, const Segment& segment, const Session& next) {
  const holdfast::Session session = holdfast::Session(segment);
  const SessionWord word = session.now();
  if (!word.lost()) return false;
  // If locks already stand in this epoch, either they are from 65,535 epochs ago, or only this dictionary has lost the
  // session.
  const auto standing = standing_keys(dictionary, narrow(next.epoch));
  if (!standing) return false;
  for (const std::string& key : *standing)
    if (is_stuck(drop(dictionary, key, kDropNs))) return false;
  return session.begin(word, narrow(next.epoch), static_cast<std::uint64_t>(next.lease),
                       static_cast<std::uint64_t>(next.deadline));
}

}  // namespace

Epoch SharedMachine::begin_epoch(LeaseId lease, Milliseconds deadline) {
  if (superseded()) return 0;
  end_all();
  Epoch last = session().epoch;
  if (is_later(alone_.epoch, last)) last = alone_.epoch;
  const Session next{.epoch = after(last), .lease = lease, .deadline = deadline, .lost = false};
  bool begun = true;
  each([&](Dictionary& dictionary, const Segment& segment) {
    // If the dictionary already has this epoch, a later agent is just beginning its own session.
    if (begun) begun = holdfast::Session(segment).now().epoch() != next.epoch && begin_in(dictionary, segment, next);
  });
  if (!begun) return 0;
  alone_ = next;
  adopts_ = false;
  unseen_until_ = 0;  // if there is an unseen session, it belongs to another lease
  ignores_hints_ = true;
  return next.epoch;
}

bool SharedMachine::renew(Milliseconds from, Milliseconds to) {
  if (superseded()) return false;
  const Session all = session();
  // The deadline may now be later than `from`, because the dictionary with the earliest deadline was removed.
  if (all.lost || all.deadline < from) return false;
  bool renewed = true;
  each([&](const Dictionary&, const Segment& segment) {
    const SessionWord word = holdfast::Session(segment).now();
    const std::uint64_t further = std::max(word.deadline_ms(), static_cast<std::uint64_t>(to));
    const bool same =
        word.epoch() == narrow(all.epoch) && static_cast<LeaseId>(holdfast::Session(segment).lease()) == all.lease;
    if (!same || !holdfast::Session(segment).renew(word, further)) renewed = false;
  });
  alone_ = {.epoch = all.epoch, .lease = all.lease, .deadline = to, .lost = false};
  if (!renewed) lose();
  return renewed;
}

// Ends the session in each dictionary. An agent may have died between two dictionaries, so their epochs and deadlines
// may differ.
void SharedMachine::end_all() {
  each([this](const Dictionary&, const Segment& segment) {
    const SessionWord word = holdfast::Session(segment).now();
    // This acquire fence pairs with attend(). If a later agent owns the session, its name is visible here.
    std::atomic_thread_fence(kAcquire);
    if (!word.lost() && holdfast::Session(segment).agent() == self_) holdfast::Session(segment).lose(word.epoch());
  });
  alone_.lost = true;
}

bool SharedMachine::may_be_unseen() const { return !dictionaries_.complete() && now_ms() < unseen_until_; }

bool SharedMachine::lose() {
  if (superseded()) return false;
  end_all();
  for (auto& [name, recall] : recalls_) leave(name, std::move(recall));
  recalls_.clear();
  drops_.clear();
  return !may_be_unseen();
}

void SharedMachine::note(Trouble trouble) {
  if (superseded()) return;
  each([trouble](const Dictionary&, const Segment& segment) { holdfast::Session(segment).note(in_memory(trouble)); });
}

/// Returns the session with the latest epoch. A dictionary with an earlier epoch was inaccessible, or an agent died
/// before it reached the dictionary, so no lock stands there.
Session SharedMachine::latest(const std::map<std::string, Part>& parts) {
  Epoch last = 0;
  for (const auto& [name, part] : parts)
    if (const Epoch epoch = holdfast::Session(*part.segment).now().epoch(); is_later(epoch, last)) last = epoch;
  Session all;
  for (const auto& [name, part] : parts)
    if (holdfast::Session(*part.segment).now().epoch() == last) add(all, *part.segment);
  return all;
}

// Checks whether a later agent has replaced this one. If there is no dictionary yet, the socket's name belongs to the
// later agent. If there are dictionaries, they name the later agent: if two agents start at the same time, the socket's
// name may belong to the other one.
void SharedMachine::check_socket() {
  if (questions_.has_name()) return;
  if (parts_.empty() && questions_.is_replaced())
    replaced_ = true;
  else if (!superseded() && !world_.directory().is_gone())  // a new directory would be another world
    questions_.take_name();
}

// Names this agent in all new dictionaries before it reads any of their sessions.
void SharedMachine::take_in_new() {
  const std::map<std::string, Part> come = attend_new();
  if (alone_.epoch == 0 && parts_.empty()) alone_ = latest(come);
  const Session all = session();
  for (const auto& [name, part] : come) {
    if (join(part, all)) parts_[name] = part;
    ignores_hints_ = true;
  }
  std::erase_if(parts_, [this](const auto& one) { return dictionaries_.find(one.first) == nullptr; });
}

// Names this agent in new dictionaries, which may name an agent that has ended. First checks whether a later agent has
// replaced this one. Such an agent is already named in another dictionary, perhaps in one that this call has found. So
// only one of two agents remains, whichever of them reaches a dictionary first.
std::map<std::string, SharedMachine::Part> SharedMachine::attend_new() {
  std::map<std::string, Part> come;
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    const std::shared_ptr<const Segment> segment = dictionary->keep_segment();
    const auto found = parts_.find(name);
    if (segment == nullptr || (found != parts_.end() && found->second.segment == segment)) continue;
    const holdfast::Session session = holdfast::Session(*segment);
    const Token before = session.agent();
    if (parts_.empty() && come.empty()) check_socket();
    const bool is_first = std::all_of(come.begin(), come.end(), [this](const auto& one) {
      return holdfast::Session(*one.second.segment).agent() == self_;
    });
    if (is_first && !superseded() && session.attend(before, self_, waiter_)) come[name] = {dictionary, segment};
  }
  return come;
}

// Lets the dictionary join the session. The dictionary may have no session, or the session of an agent that has ended.
// If this agent has adopted that session before it found this dictionary, nobody knows which locks stand in the
// dictionary, so the session is ended there. If the epoch is the same but the lease differs, another agent was started
// at the same time. It may be stopped while it makes a lock stand in this epoch. In this case, the session is ended in
// all dictionaries, and the next session has a new epoch.
bool SharedMachine::join(const Part& part, const Session& all) const {
  if (all.lost) return true;
  if (part.dictionary->segment(EpochGuard()) != part.segment.get()) return false;
  const holdfast::Session session = holdfast::Session(*part.segment);
  const SessionWord word = session.now();
  const bool same = word.epoch() == all.epoch && static_cast<LeaseId>(session.lease()) == all.lease;
  if (same && !word.lost() && adopts_) return true;
  // This acquire fence pairs with attend(), as in end_all(). The session of a later agent must not be changed.
  std::atomic_thread_fence(kAcquire);
  if (session.agent() != self_) return true;
  const bool is_of_both = word.epoch() == all.epoch && static_cast<LeaseId>(session.lease()) != all.lease;
  session.lose(word.epoch());
  return is_of_both || begin_in(*part.dictionary, *part.segment, all);
}

// Returns whether a dictionary's file was deleted manually. A regular removal marks the dictionary before its file
// disappears, so the mark must be checked last. If the file was deleted manually, processes that have the dictionary
// open continue to use it. As long as this agent is one of these processes, nobody can create a new dictionary with
// this name.
bool SharedMachine::is_file_gone() const {
  bool gone = false;
  each([&](const Dictionary& dictionary, const Segment& segment) {
    struct stat info {};
    const std::string path = world_.directory().path_of(Segment::file_name(dictionary.name()));
    if (::lstat(path.c_str(), &info) != 0 && errno == ENOENT && !segment.retired()) gone = true;
  });
  return gone;
}

// --- turn(): continues recalls, and checks dictionaries ---

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
    leave(name, std::move(found->second));
    recalls_.erase(found);
    done();
  }
  drop_again();
  leave_again();
  if (now >= next_check_) {
    ignores_hints_ = true;
    directory_is_gone_ = world_.directory().is_gone();
    file_is_gone_ = is_file_gone();
    check_socket();
    dictionaries_.check_again();
    next_check_ = now + kIdleMs;
  }
  due_ = drops_.empty() && leaves_.empty() ? next_check_ : now + kStuckMs;
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

// Does one step of a recall. A lock that does not stand has no holder here, because its entry may have been evicted.
bool SharedMachine::step(const LockName& name, Recall& recall) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr) return true;
  if (recall.lease.owner != kNobody) return withdraw(*dictionary, name, recall);
  LockState state;
  const Code checked = budget_.spend([&](std::uint64_t ns) { return state_of_lock(*dictionary, name.key, state, ns); });
  if (checked == Code::not_found || checked == Code::removed || (checked == Code::ok && !state.stands)) return true;
  recall.due = now_ms() + kStuckMs;
  if (checked != Code::ok) return false;
  double sleep = 0;
  const WaitStep step{parker_, recall.waiter, sleep};
  const Code code = acquire_wait(*dictionary, name.key, {.exptime = 0, .fair = true}, step, recall.lease);
  recall.queued = code != Code::ok;
  if (code == Code::ok) return withdraw(*dictionary, name, recall);
  if (code == Code::removed) return true;
  recall.due = now_ms() + static_cast<Milliseconds>(std::max(sleep * 1e3, 1.0));
  return false;
}

// Withdraws the lock. Before that, the lock stands and must not be given to another machine: if the agent died, the
// lock would pass to the next local program.
bool SharedMachine::withdraw(Dictionary& dictionary, const LockName& name, Recall& recall) {
  const Code code =
      budget_.spend([&](std::uint64_t ns) { return holdfast::withdraw(dictionary, name.key, recall.lease, ns); });
  // If a flush has ended the agent's grant, the lock may still stand, and a local program may hold it.
  const bool again = code == Code::not_owner;
  recall.due = again ? 0 : now_ms() + kStuckMs;
  return !again && !is_stuck(code);
}

void SharedMachine::leave(const LockName& name, Recall recall) {
  if (!recall.queued && recall.lease.owner == kNobody) return parker_.close_waiter(recall.waiter);
  leaves_.emplace_back(name, std::move(recall));
  leave_again();
}

void SharedMachine::leave_again() {
  std::erase_if(leaves_, [this](const auto& one) {
    const auto& [name, recall] = one;
    Dictionary* const dictionary = dictionaries_.find(name.dictionary);
    const holdfast::Waiter waiter = parker_.begin(recall.waiter, self_);
    const auto call = [&, &lease = recall.lease, &key = name.key](std::uint64_t ns) {
      return leave_standing(*dictionary, key, waiter, lease, ns);
    };
    if (dictionary != nullptr && is_stuck(budget_.spend(call))) return false;
    parker_.close_waiter(recall.waiter);
    return true;
  });
}

// --- locks ---

std::vector<Want> SharedMachine::wanted() {
  std::vector<Want> wants;
  const bool all = std::exchange(ignores_hints_, false);
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    std::array<std::uint64_t, kWants> hashes{};
    std::size_t count = 0;
    {
      const EpochGuard inside;
      const Segment* const segment = dictionary->segment(inside);
      if (segment == nullptr) continue;
      count = holdfast::Session(*segment).take_wants(hashes);
    }
    if (count == 0 && !all) continue;
    const std::span<const std::uint64_t> hints(hashes.data(), all || count > kWants ? 0 : count);
    for (std::string& key : wanted_keys(*dictionary, hints)) {
      LockState state;
      const auto check = [&, at = dictionary](std::uint64_t ns) { return state_of_lock(*at, key, state, ns); };
      if (budget_.spend(check) == Code::ok) wants.push_back({{name, std::move(key)}, contender(state.first)});
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

// Returns the use of a lock. If the lock was evicted while it stood, it is unknown which fencing tokens were given out,
// so all count as used up.
Use SharedMachine::use(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  LockState state;
  const auto check = [&](std::uint64_t ns) { return state_of_lock(*dictionary, name.key, state, ns); };
  const Code code = dictionary != nullptr ? budget_.spend(check) : Code::not_found;
  if (dictionary == nullptr) return {.known = !may_be_unseen()};
  if (code != Code::ok) return {.known = code == Code::not_found || code == Code::removed};
  if (drops_.contains(name)) return {.known = false};
  const bool waits = state.waited_for || state.tried_for;
  return {.stands = state.stands,
          .held = state.stands && state.held,
          .waits = state.waited_for,
          .tries = state.tried_for,
          .grants = waits && !state.stands ? agent::kGrantsMax : state.grants};
}

Contender SharedMachine::holder(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  std::array<HolderInfo, 1> found{};
  HolderCount count;
  const auto check = [&](std::uint64_t ns) { return find_holders(*dictionary, name.key, found, count, ns); };
  if (dictionary == nullptr || budget_.spend(check) != Code::ok || count.holders != 1) return {};
  const std::uint64_t now_ns = platform::monotonic_ns();
  const std::uint64_t held_ns = now_ns - std::min(found[0].since_ns, now_ns);
  return {found[0].pid, found[0].program.data(), found[0].reason.data(), static_cast<Milliseconds>(held_ns / kNsPerMs)};
}

bool SharedMachine::orphaned(const LockName& name) const {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  std::array<Token, kUsersLookedAt> users{};
  std::size_t count = 0;
  const auto check = [&](std::uint64_t ns) { return users_of_lock(*dictionary, name.key, users, count, ns); };
  if (dictionary == nullptr || budget_.spend(check) != Code::ok) return false;
  return std::all_of(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(count),
                     [this](Token user) { return user == self_ || world_.is_dead(user); });
}

std::optional<std::vector<LockName>> SharedMachine::standing() const {
  std::vector<LockName> names;
  const Session all = session();
  for (const auto& [name, dictionary] : dictionaries_.all()) {
    auto keys = standing_keys(*dictionary, narrow(all.epoch));
    if (!keys) return std::nullopt;
    for (std::string& key : *keys) names.push_back({name, std::move(key)});
  }
  return names;
}

std::optional<std::vector<LockName>> SharedMachine::adopt(Milliseconds end) {
  auto names = standing();
  if (!names) return names;
  adopts_ = false;
  unseen_until_ = end;
  return names;
}

bool SharedMachine::grant(const LockName& name, Epoch epoch, Revision revision) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr || superseded()) return false;
  const Session all = session();
  if (all.lost || all.epoch != epoch) return false;
  // If a lock was taken away but could not be dropped yet, its old grant must not return with the new one.
  if (drops_.contains(name)) drop(name);
  if (drops_.contains(name)) return false;
  const Code code = budget_.spend([&](std::uint64_t ns) {
    return stand(*dictionary, name.key, narrow(epoch), static_cast<std::uint64_t>(revision), ns);
  });
  return code == Code::ok;
}

// Refuses local programs. If a stopped process prevents this, the programs wait until the agent's next poll.
void SharedMachine::refuse(const LockName& name, Refusal why) {
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr || superseded()) return;
  budget_.spend([&](std::uint64_t ns) { return holdfast::refuse(*dictionary, name.key, code_of(why), ns); });
}

void SharedMachine::recall(const LockName& name, std::function<void()> done) {
  if (superseded()) return;
  Recall& recall = recalls_[name];
  if (recall.waiter == 0) recall.waiter = parker_.open_waiter();
  recall.done = std::move(done);
  due_ = recall.due = 0;
}

bool SharedMachine::try_recall(const LockName& name) {
  if (superseded()) return false;
  Dictionary* const dictionary = dictionaries_.find(name.dictionary);
  if (dictionary == nullptr) return true;
  return budget_.spend([&](std::uint64_t ns) { return withdraw_idle(*dictionary, name.key, ns); }) == Code::ok;
}

void SharedMachine::drop(const LockName& name) {
  if (superseded()) return;
  if (dictionaries_.find(name.dictionary) != nullptr) drops_.insert(name);
  drop_again();
  if (drops_.contains(name)) due_ = std::min(due_, now_ms() + kStuckMs);
  const auto found = recalls_.find(name);
  if (found == recalls_.end()) return;
  leave(name, std::move(found->second));
  recalls_.erase(found);
}

// Repeats drops that were prevented. Nobody can take the lock in the meantime, because the stopped process that
// prevents the drop also prevents grants.
void SharedMachine::drop_again() {
  if (superseded()) return;
  std::erase_if(drops_, [this](const LockName& name) {
    Dictionary* const dictionary = dictionaries_.find(name.dictionary);
    const auto call = [&](std::uint64_t ns) { return holdfast::drop(*dictionary, name.key, ns); };
    return dictionary == nullptr || !is_stuck(budget_.spend(call));
  });
}

}  // namespace holdfast::agent
