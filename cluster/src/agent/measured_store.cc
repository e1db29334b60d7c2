#include "agent/measured_store.h"

#include <algorithm>
#include <array>
#include <utility>

namespace holdfast::agent {

namespace {

bool has_put(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.kind == Step::Kind::put; });
}

// The Trouble for each Fault. If a lease is gone or a request is too large, the store itself is not in trouble.
constexpr std::array kTroubles{
    std::pair{Fault::no_space, Trouble::no_room},
    std::pair{Fault::no_leader, Trouble::no_leader},
    std::pair{Fault::denied, Trouble::denied},
    std::pair{Fault::other, Trouble::refused},
};

Trouble trouble_of(const Answer& answer) {
  if (answer.outcome == Outcome::unknown) return Trouble::unanswered;
  for (const auto& [fault, trouble] : kTroubles)
    if (fault == answer.fault) return trouble;
  return Trouble::none;
}

}  // namespace

void MeasuredStore::note(const Answer& answer, std::int64_t sent_us) {
  if (answer.outcome == Outcome::unknown) {
    ++counters_.unanswered;
    return;
  }
  if (answer.outcome == Outcome::refused) ++counters_.refused;
  latency_.add(clock_.boot_us() - sent_us - answer.queued_us);
  queued_us_ += answer.queued_us;
}

std::function<void(const Answer&)> MeasuredStore::noting(std::function<void(const Answer&)> done) {
  ++counters_.requests;
  return [this, sent = clock_.boot_us(), done = std::move(done)](const Answer& answer) {
    note(answer, sent);
    done(answer);
  };
}

std::function<void(const LeaseAnswer&)> MeasuredStore::noting(std::function<void(const LeaseAnswer&)> done) {
  ++counters_.requests;
  return [this, sent = clock_.boot_us(), done = std::move(done)](const LeaseAnswer& answer) {
    note(answer.answer, sent);
    done(answer);
  };
}

// Only the answers to transactions show whether the store was restored to an earlier state, because etcd answers lease
// requests from the state of a single member, which may lag.
void MeasuredStore::transact(Change change, std::function<void(const Answer&)> done) {
  auto judged = [this, before = newest_, times_back = times_back_, puts_then = has_put(change.then),
                 puts_otherwise = has_put(change.otherwise), done = std::move(done)](const Answer& answer) {
    judge(answer, answer.guarded ? puts_then : puts_otherwise);
    if (answer.outcome == Outcome::answered) follow(before, times_back, answer.revision);
    done(answer);
  };
  store_.transact(std::move(change), noting(std::move(judged)));
}

void MeasuredStore::judge(const Answer& answer, bool has_put) {
  const Trouble trouble = trouble_of(answer);
  if (answer.outcome == Outcome::answered && !has_put && trouble_ != Trouble::unanswered) return;
  if (answer.outcome == Outcome::refused && trouble == Trouble::none) return;
  judged_ms_ = clock_.boot_ms();
  trouble_ = trouble;
  sentence_ = trouble == Trouble::none ? "" : answer.sentence;
}

void MeasuredStore::follow(Revision before, std::uint64_t times_back, Revision now) {
  if (times_back != times_back_) return;
  if (now >= before) {
    newest_ = std::max(newest_, now);
    return;
  }
  ++times_back_;
  newest_ = now;
  went_back_(before, now);
}

void MeasuredStore::grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) {
  store_.grant(ttl_s, noting(std::move(done)));
}

void MeasuredStore::keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  store_.keep_alive(lease, noting(std::move(done)));
}

void MeasuredStore::revoke(LeaseId lease, std::function<void(const Answer&)> done) {
  store_.revoke(lease, noting(std::move(done)));
}

void MeasuredStore::keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  store_.keys_of(lease, noting(std::move(done)));
}

void MeasuredStore::watch(const std::string& key, std::function<void(const Record&)> rung) {
  store_.watch(key, [this, rung = std::move(rung)](const Record& record) {
    ++counters_.rings;
    rung(record);
  });
}

}  // namespace holdfast::agent
