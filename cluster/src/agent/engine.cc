#include "agent/engine.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {

namespace {

/// For this time, the result of a change shows the state of the store.
constexpr Milliseconds kFresh = 1000;
/// The maximum time for which a status question waits for the store.
constexpr Milliseconds kStatusWait = 300;

}  // namespace

Engine::Engine(Store& store, Machine& machine, const Clock& clock, const std::string& space, Settings settings,
               std::function<void(const std::string&)> warn)
    : store_(store, clock, [this](Revision from, Revision to) { store_went_back(from, to); }),
      machine_(machine),
      clock_(clock),
      started_(clock.boot_ms()),
      settings_(std::move(settings)),
      keys_(space),
      locks_(store_, machine, clock, keys_, settings_),
      keeper_(store_, machine, clock, keys_, settings_,
              {[this](LeaseId lease, Epoch epoch) { locks_.begin(lease, epoch); },
               [this](LeaseId lease, Epoch epoch, const std::vector<std::string>& keys,
                      const std::vector<LockName>& standing) { locks_.adopt(lease, epoch, keys, standing); },
               [this] { locks_.end(); }, [this](const Record& bell) { locks_.ring(bell); }}),
      questions_(store_, machine, keys_),
      housekeeping_(store_, machine, locks_, clock, warn),
      warn_(std::move(warn)),
      space_(space) {
  locks_.on_dead_lease([this] { keeper_.suspect(); });
}

// Reports that the store was restored to an earlier state. The fencing tokens of locks that are held here continue to
// grow. But new locks, and locks of other machines, may get tokens that were used before.
void Engine::store_went_back(Revision from, Revision to) {
  const std::string why = "the store's revision went back from " + std::to_string(from) + " to " + std::to_string(to) +
                          ", as after a restore without --bump-revision: tokens may repeat";
  if (!keeper_.alive()) warn_(why);
  keeper_.store_went_back(why);
}

void Engine::step() {
  if (machine_.superseded()) return;
  keeper_.step();
  answer();
  // Without a lease, do not read the wants until there is a lease.
  if (keeper_.alive())
    for (const Want& want : machine_.wanted()) locks_.want(want);
  locks_.step();
  if (keeper_.alive()) housekeeping_.step();
  if (store_.trouble() != Trouble::none) keeper_.probe();
  machine_.note(locks_.draining() ? Trouble::draining : store_.trouble());
}

void Engine::answer() {
  for (const Query& query : machine_.queries()) {
    if (query.kind == Query::Kind::status)
      asked_.push_back(query.number);
    else if (query.kind == Query::Kind::accept)
      machine_.answer(query.number, accept_ ? accept_(static_cast<std::uint64_t>(query.revision)) : Reply());
    else
      questions_.ask(query);
  }
  answer_status();
}

bool Engine::knows_trouble() const {
  return !keeper_.alive() || store_.trouble() != Trouble::none || clock_.boot_ms() - store_.judged_ms() <= kFresh;
}

// Answers status questions. If no change was sent recently, sends one to the store first: a full store still answers
// reads and renews leases, so only a change shows that the store is full.
void Engine::answer_status() {
  const Milliseconds now = clock_.boot_ms();
  if (asked_.empty()) return;
  if (asked_until_ == 0) asked_until_ = now + kStatusWait;
  if (!knows_trouble() && now < asked_until_) return keeper_.probe();
  asked_until_ = 0;
  if (keeper_.alive()) machine_.note(locks_.draining() ? Trouble::draining : store_.trouble());
  for (const std::uint64_t number : std::exchange(asked_, {})) machine_.answer(number, status());
}

Reply Engine::status() const {
  Reply reply;
  reply.code = Reply::Code::yes;
  reply.space = space_;
  if (keeper_.alive()) {
    reply.machine = machine_.session().lease;
    reply.sentence = store_.sentence();
  } else {
    reply.sentence = keeper_.sentence().empty() ? reason_ : keeper_.sentence();
  }
  const StoreCounters& asked = store_.counters();
  const Latency& latency = store_.latency();
  const LockCounters& locks = locks_.counters();
  reply.figures = {{"up_ms", clock_.boot_ms() - started_},
                   {"locks_here", locks_.held()},
                   {"locks_wanted", locks_.waiting()},
                   {"grants_by_answer", locks.granted_by_answer},
                   {"grants_by_bell", locks.granted_by_bell},
                   {"grants_by_look", locks.granted_by_look},
                   {"grants_broken", locks.dropped},
                   {"hand_overs", locks.transfers},
                   {"returns", locks.releases},
                   {"sessions_lost", keeper_.losses()},
                   {"bells", asked.rings},
                   {"dead_bells", housekeeping_.dead_bells()},
                   {"requests", asked.requests},
                   {"requests_refused", asked.refused},
                   {"requests_unanswered", asked.unanswered},
                   {"latency_us_sum", latency.sum_us()},
                   {"latency_count", latency.count()},
                   {"queue_us_sum", store_.queued_us()}};
  for (std::size_t i = 0; i < Latency::kBounds.size(); ++i)
    reply.figures.emplace_back("latency_us_" + std::to_string(Latency::kBounds[i]), latency.within(i));
  if (describe_store_)
    for (auto& figure : describe_store_()) reply.figures.push_back(std::move(figure));
  return reply;
}

Milliseconds Engine::due() const {
  Milliseconds due = std::min(keeper_.due(), locks_.due());
  if (!asked_.empty()) due = std::min(due, asked_until_);
  return keeper_.alive() ? std::min(due, housekeeping_.due()) : due;
}

// Takes the locks back before the session ends. So a program that wants a lock now has to wait, instead of getting the
// lock and then losing it.
bool Engine::vacate() {
  const auto standing = machine_.standing();
  return standing && std::all_of(standing->begin(), standing->end(), [this](const LockName& name) {
           return machine_.try_recall(name) || machine_.orphaned(name);
         });
}

}  // namespace holdfast::agent
