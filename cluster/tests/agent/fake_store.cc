#include "agent/fake_store.h"

#include <algorithm>
#include <utility>

namespace holdfast::test {

using agent::Answer;
using agent::Change;
using agent::Fault;
using agent::Guard;
using agent::LeaseAnswer;
using agent::LeaseId;
using agent::Outcome;
using agent::Record;
using agent::Revision;
using agent::Step;

namespace {

Answer refused(Fault fault) {
  Answer answer;
  answer.outcome = Outcome::refused;
  answer.fault = fault;
  answer.sentence = "refused";
  return answer;
}

LeaseAnswer answer_about(LeaseId lease) {
  LeaseAnswer answer;
  answer.answer.outcome = Outcome::answered;
  answer.lease = lease;
  return answer;
}

Answer& answer_in(Answer& answer) { return answer; }
Answer& answer_in(LeaseAnswer& answer) { return answer.answer; }

}  // namespace

bool FakeStore::holds(const Guard& guard) const {
  const auto revision_of = [&](const Record& record) {
    return guard.of == Guard::Of::created ? record.created : record.modified;
  };
  if (!guard.prefix) {
    const auto found = records_.find(guard.key);
    return (found == records_.end() ? 0 : revision_of(found->second)) == guard.revision;
  }
  for (auto at = records_.lower_bound(guard.key); at != records_.end() && at->first.starts_with(guard.key); ++at)
    if (revision_of(at->second) != guard.revision) return false;
  return true;
}

bool FakeStore::is_alive(const std::vector<Step>& steps) const {
  return std::all_of(steps.begin(), steps.end(), [&](const Step& step) {
    return step.kind != Step::Kind::put || step.lease == 0 || leases_.contains(step.lease);
  });
}

void FakeStore::put(const Step& step, Revision revision) {
  Record& record = records_[step.key];
  if (record.created == 0) record.created = revision;
  if (record.lease != 0) leases_.at(record.lease).keys.erase(step.key);
  record.key = step.key;
  record.value = step.value;
  record.modified = revision;
  record.lease = step.lease;
  if (step.lease != 0) leases_.at(step.lease).keys.insert(step.key);
  for (const auto& [client, rung] : watchers_) rung(record);
  if (observer_) observer_(record);
}

bool FakeStore::erase(const std::string& key) {
  const auto found = records_.find(key);
  if (found == records_.end()) return false;
  if (found->second.lease != 0) leases_.at(found->second.lease).keys.erase(key);
  records_.erase(found);
  Record gone;
  gone.key = key;
  for (const auto& [client, rung] : watchers_) rung(gone);
  if (observer_) observer_(gone);
  return true;
}

std::vector<Record> FakeStore::read(const Step& step) const {
  std::vector<Record> found;
  const bool one = step.kind == Step::Kind::get;
  for (auto at = records_.lower_bound(step.key); at != records_.end(); ++at) {
    if (one ? at->first != step.key : !at->first.starts_with(step.key)) break;
    found.push_back(at->second);
  }
  std::sort(found.begin(), found.end(), [](const Record& a, const Record& b) { return a.created < b.created; });
  if (!one && step.limit != 0 && found.size() > static_cast<std::size_t>(step.limit))
    found.resize(static_cast<std::size_t>(step.limit));
  return found;
}

Answer FakeStore::apply(const Change& change) {
  Answer answer;
  answer.guarded = std::all_of(change.guards.begin(), change.guards.end(), [&](const Guard& g) { return holds(g); });
  const std::vector<Step>& steps = answer.guarded ? change.then : change.otherwise;
  if (!is_alive(steps)) return refused(Fault::no_lease);
  bool changed = false;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::put) {
      put(step, revision_ + 1);
      changed = true;
    } else if (step.kind == Step::Kind::erase) {
      changed = erase(step.key) || changed;
    } else {
      answer.found.push_back(read(step));
    }
  }
  if (changed) ++revision_;
  answer.outcome = Outcome::answered;
  answer.revision = revision_;
  return answer;
}

LeaseAnswer FakeStore::grant(std::int64_t ttl_s) {
  leases_[++last_lease_] = {ttl_s, 0, {}};
  return keep_alive(last_lease_);
}

LeaseAnswer FakeStore::keep_alive(LeaseId lease) {
  LeaseAnswer answer = answer_about(lease);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return answer;
  answer.ttl_s = found->second.ttl_s;
  found->second.end = schedule_.now() + answer.ttl_s * 1'000'000;
  schedule_.after(answer.ttl_s * 1'000'000, [this, lease] { expire(lease); });
  return answer;
}

void FakeStore::expire(LeaseId lease) {
  const auto found = leases_.find(lease);
  if (found != leases_.end() && found->second.end <= schedule_.now()) revoke(lease);
}

Answer FakeStore::revoke(LeaseId lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return refused(Fault::no_lease);
  const std::set<std::string> keys = found->second.keys;
  for (const std::string& key : keys) erase(key);
  leases_.erase(lease);
  if (!keys.empty()) ++revision_;
  Answer answer;
  answer.outcome = Outcome::answered;
  answer.revision = revision_;
  return answer;
}

LeaseAnswer FakeStore::keys_of(LeaseId lease) {
  LeaseAnswer answer = answer_about(lease);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return answer;
  answer.ttl_s = std::max<std::int64_t>(1, (found->second.end - schedule_.now()) / 1'000'000);
  answer.keys.assign(found->second.keys.begin(), found->second.keys.end());
  return answer;
}

std::vector<LeaseId> FakeStore::leases() const {
  std::vector<LeaseId> all;
  for (const auto& [lease, state] : leases_) all.push_back(lease);
  return all;
}

FakeClient::FakeClient(FakeStore& store, Schedule& schedule, std::function<void()> called)
    : store_(store), schedule_(schedule), called_(std::move(called)) {}

FakeClient::~FakeClient() {
  *alive_ = false;
  store_.watchers_.erase(this);
}

Microseconds FakeClient::hop() { return schedule_.between(100, 700); }

Fate FakeClient::roll() {
  const StoreFaults& faults = store_.faults;
  if (schedule_.chance(faults.lost_request)) return Fate::lost_request;
  if (schedule_.chance(faults.lost_answer)) return Fate::lost_answer;
  if (schedule_.chance(faults.late)) return Fate::late;
  if (schedule_.chance(faults.doubled)) return Fate::doubled;
  if (schedule_.chance(faults.no_leader)) return Fate::no_leader;
  return Fate::done;
}

void FakeClient::callback(Microseconds delay, std::function<void()> call) {
  schedule_.after(delay, [this, alive = alive_, call = std::move(call)]() mutable {
    if (!*alive) return;
    if (schedule_.now() < stopped_until_) return callback(stopped_until_ - schedule_.now(), std::move(call));
    call();
    if (*alive) called_();
  });
}

/// Gives the agent the answer or the timeout, whichever comes first.
template <class Result>
void FakeClient::answer(Microseconds delay, Result result, std::shared_ptr<bool> open,
                        std::function<void(const Result&)> done) {
  callback(delay, [open, done = std::move(done), result = std::move(result)] {
    if (!std::exchange(*open, false)) return;
    done(result);
  });
}

template <class Result>
void FakeClient::send(Fate its_fate, std::function<Result()> work, std::function<void(const Result&)> done) {
  ++requests;
  const auto open = std::make_shared<bool>(true);
  answer<Result>(FakeStore::kPatience, Result(), open, done);
  if (cut() || its_fate == Fate::lost_request) return;
  if (its_fate == Fate::no_leader) {
    Result result;
    answer_in(result) = refused(Fault::no_leader);
    return answer<Result>(hop(), std::move(result), open, done);
  }
  const auto arrive = [=, this, alive = alive_, lost = its_fate == Fate::lost_answer] {
    const Result result = work();
    if (*alive && !lost && !cut()) answer<Result>(hop(), result, open, done);
  };
  schedule_.after(its_fate == Fate::late ? schedule_.between(hop(), 5'000'000) : hop(), arrive);
  if (its_fate == Fate::doubled) schedule_.after(schedule_.between(hop(), 3'000'000), arrive);
}

void FakeClient::transact(Change change, std::function<void(const Answer&)> done) {
  const std::optional<Fate> said = fate ? fate(change) : std::nullopt;
  send<Answer>(
      said ? *said : roll(), [&store = store_, change = std::move(change)] { return store.apply(change); },
      std::move(done));
}

void FakeClient::grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) {
  send<LeaseAnswer>(
      roll(), [&store = store_, ttl_s] { return store.grant(ttl_s); }, std::move(done));
}

void FakeClient::keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  send<LeaseAnswer>(
      roll(), [&store = store_, lease] { return store.keep_alive(lease); }, std::move(done));
}

void FakeClient::revoke(LeaseId lease, std::function<void(const Answer&)> done) {
  send<Answer>(
      roll(), [&store = store_, lease] { return store.revoke(lease); }, std::move(done));
}

void FakeClient::keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  send<LeaseAnswer>(
      roll(), [&store = store_, lease] { return store.keys_of(lease); }, std::move(done));
}

void FakeClient::watch(const std::string& key, std::function<void(const Record&)> rung) {
  watched_ = key;
  store_.watchers_[this] = [this, key, rung = std::move(rung)](const Record& record) {
    const StoreFaults& faults = store_.faults;
    if (record.key != key || !hears || cut() || schedule_.chance(faults.lost_ring)) return;
    const bool late = schedule_.chance(faults.late_ring);
    callback(late ? schedule_.between(1000, 3'000'000) : hop(), [rung, record] { rung(record); });
    if (schedule_.chance(faults.doubled_ring))
      callback(schedule_.between(1000, 5'000'000), [rung, record] { rung(record); });
  };
}

}  // namespace holdfast::test
