#include "agent/keeper.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace holdfast::agent {

namespace {

constexpr Milliseconds kMarginMin = 50;
constexpr Milliseconds kRenewalsPerTtl = 3;
constexpr Milliseconds kProbeEvery = 1000;
/// The maximum time of a lease, in seconds. No store grants a longer time, so a longer time counts as this value.
constexpr std::int64_t kTtlMax = 1'000'000;

// The reasons for the loss of a lease.
constexpr const char* kPassed = "it was not renewed before its deadline";
constexpr const char* kEnded = "the store ended it";
constexpr const char* kNotFound = "the store ended it, or it belongs to an agent with another namespace";
constexpr const char* kLeaped = "the wall clock jumped, so this machine may be a copy of another one";

}  // namespace

Milliseconds deadline_of(Milliseconds sent, std::int64_t ttl_s) {
  const Milliseconds ttl = ttl_s * 1000;
  return sent + ttl - ttl / 100 - std::max(kMarginMin, ttl / 100);
}

Keeper::Keeper(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings,
               Listener listener)
    : store_(store),
      machine_(machine),
      clock_(clock),
      keys_(keys),
      settings_(settings),
      listener_(std::move(listener)),
      ttl_s_(settings.ttl_s) {}

void Keeper::start() {
  leaped();  // initializes the comparison
  const Session session = machine_.session();
  if (session.lease != 0 && !session.lost && clock_.boot_ms() < session.deadline) {
    lease_ = session.lease;
    adopting_ = true;
    state_ = State::alive;
    watch();
    return adopt();
  }
  // The session may still be alive in some of the dictionaries. End it, because no program may rely on a lease that is
  // being revoked.
  if (machine_.lose()) retire(session.lease);
  state_ = State::none;
  acquire();
}

Milliseconds Keeper::due() const {
  Milliseconds due = std::numeric_limits<Milliseconds>::max();
  if (state_ == State::stopped) return due;
  if (!running_) due = next_;
  if (state_ == State::alive) due = std::min(due, machine_.session().deadline);
  for (const Old& old : old_)
    if (!old.asked) due = std::min(due, old.next);
  return due;
}

void Keeper::step() {
  if (state_ == State::stopped || machine_.superseded()) return;
  const bool leap = leaped();
  if (state_ == State::alive) {
    const Session session = machine_.session();
    if (session.lost || clock_.boot_ms() >= session.deadline) return lose(passed());
    if (leap) {
      drop(kLeaped);
      return;
    }
  }
  revoke_old();
  if (running_ || clock_.boot_ms() < next_) return;
  if (state_ == State::none)
    acquire();
  else if (state_ == State::alive)
    adopting_ ? adopt() : renew();
}

/// Returns whether the wall clock has moved differently from BOOTTIME since the last check. Allows for the time for
/// which this process may be stopped between the reads of the two clocks.
bool Keeper::leaped() {
  const Milliseconds before = clock_.boot_ms();
  const Milliseconds wall = clock_.wall_ms();
  const Milliseconds stopped = clock_.boot_ms() - before;
  const Milliseconds offset = wall - before;
  const Milliseconds leap = std::abs(offset - std::exchange(wall_offset_, offset));
  return leap > kLeapMax + stopped + std::exchange(stopped_, stopped);
}

void Keeper::acquire() {
  running_ = true;
  asked_ = clock_.boot_ms();
  state_ = State::asking;
  store_.grant(settings_.ttl_s, [this, attempt = ++attempt_, sent = clock_.boot_ms()](const LeaseAnswer& granted) {
    if (attempt != attempt_) return retire(granted.lease);
    if (granted.answer.outcome != Outcome::answered || granted.lease == 0) return retry(granted.answer);
    ttl_s_ = std::min(granted.ttl_s, kTtlMax);
    announce(granted.lease, deadline_of(sent, ttl_s_));
  });
}

/// Puts the machine's notification key and its document into the store. They disappear with the lease.
void Keeper::announce(LeaseId lease, Milliseconds deadline) {
  Change change{{Guard::absent(keys_.bell(lease))},
                {Step::put(keys_.bell(lease), {}, lease), introduce(lease, machine_.session().epoch + 1)},
                {}};
  change.urgent = true;  // the lease could expire while the change is queued
  store_.transact(std::move(change), [this, attempt = attempt_, lease, deadline](const Answer& answer) {
    const bool late = clock_.boot_ms() >= deadline;
    if (attempt != attempt_ || late || answer.outcome != Outcome::answered) retire(lease);
    if (attempt != attempt_) return;
    if (late || answer.outcome != Outcome::answered) return retry(answer);
    begin(lease, deadline);
  });
}

Step Keeper::introduce(LeaseId lease, Epoch epoch) const {
  return Step::put(keys_.machine(lease),
                   write_document({settings_.host, settings_.machine, epoch, clock_.wall_ms(), {}, {}}), lease);
}

void Keeper::probe() {
  const Milliseconds now = clock_.boot_ms();
  if (!alive() || machine_.superseded() || probing_ || now < next_probe_) return;
  next_probe_ = now + kProbeEvery;
  probing_ = true;
  Change change{{}, {introduce(lease_, machine_.session().epoch)}, {}};
  change.urgent = true;  // otherwise the result would include the time in the queue
  store_.transact(std::move(change), [this](const Answer&) { probing_ = false; });
}

void Keeper::begin(LeaseId lease, Milliseconds deadline) {
  running_ = false;
  back_off_ = 0;
  sentence_.clear();
  const Epoch epoch = machine_.begin_epoch(lease, deadline);
  if (epoch == 0) {
    retire(lease);
    return retry({});
  }
  lease_ = lease;
  state_ = State::alive;
  next_ = clock_.boot_ms() + ttl_s_ * 1000 / kRenewalsPerTtl;
  watch();
  listener_.begun(lease, epoch);
}

void Keeper::watch() {
  store_.watch(keys_.bell(lease_), [this, lease = lease_](const Record& bell) {
    if (state_ != State::alive || lease != lease_ || bell.key != keys_.bell(lease)) return;
    if (bell.modified == 0) return lose(kEnded);
    listener_.rung(bell);
  });
}

void Keeper::renew() {
  running_ = true;
  asked_ = clock_.boot_ms();
  const Milliseconds from = machine_.session().deadline;
  store_.keep_alive(lease_, [this, attempt = ++attempt_, sent = clock_.boot_ms(), from](const LeaseAnswer& answer) {
    if (attempt == attempt_) renewed(sent, from, answer);
  });
}

void Keeper::renewed(Milliseconds sent, Milliseconds from, const LeaseAnswer& kept) {
  if (kept.answer.fault == Fault::no_lease) return lose(kEnded);
  if (kept.answer.outcome != Outcome::answered) return retry(kept.answer);
  if (kept.ttl_s <= 0) return lose(kEnded);
  ttl_s_ = std::min(kept.ttl_s, kTtlMax);
  const Milliseconds to = std::max(from, deadline_of(sent, ttl_s_));
  if (clock_.boot_ms() >= from || !machine_.renew(from, to)) return lose(passed());
  running_ = false;
  back_off_ = 0;
  sentence_.clear();
  next_ = sent + ttl_s_ * 1000 / kRenewalsPerTtl;
}

void Keeper::adopt() {
  running_ = true;
  asked_ = clock_.boot_ms();
  store_.keys_of(lease_, [this, attempt = ++attempt_](const LeaseAnswer& found) {
    if (attempt != attempt_) return;
    if (found.answer.outcome != Outcome::answered) return retry(found.answer);
    if (found.ttl_s <= 0) return lose(kEnded);
    running_ = false;
    adopt_keys(found.keys, clock_.boot_ms() + (std::min(found.ttl_s, kTtlMax) + 1) * 1000);
  });
}

void Keeper::adopt_keys(const std::vector<std::string>& keys, Milliseconds end) {
  if (std::find(keys.begin(), keys.end(), keys_.bell(lease_)) == keys.end()) return lose(kNotFound);
  const auto standing = machine_.adopt(end);
  if (!standing) return retry({});
  adopting_ = false;
  next_ = clock_.boot_ms();
  listener_.adopted(lease_, machine_.session().epoch, keys, *standing);
}

std::string Keeper::passed() const { return sentence_.empty() ? kPassed : kPassed + (": " + sentence_); }

void Keeper::lose(const std::string& why) {
  if (drop(why)) retire(lease_);
}

void Keeper::store_went_back(const std::string& why) {
  if (state_ == State::alive) lose(why);
}

bool Keeper::drop(const std::string& why) {
  sentence_ = why_lost_ = why;
  ++attempt_;
  running_ = adopting_ = false;
  const bool whole = machine_.lose();
  const bool superseded = machine_.superseded();
  if (!superseded) ++losses_;
  state_ = superseded ? State::stopped : State::none;
  next_ = 0;
  listener_.lost();
  return whole;
}

void Keeper::retry(const Answer& answer) {
  running_ = false;
  if (state_ == State::asking) state_ = State::none;
  sentence_ = answer.sentence;
  back_off_ = next_back_off(back_off_);
  // The pause begins at the time of the attempt.
  next_ = std::max(clock_.boot_ms() + kBackOffMin, asked_ + back_off_);
}

void Keeper::retire(LeaseId lease) {
  if (lease == 0) return;
  const Milliseconds now = clock_.boot_ms();
  old_.push_back({lease, now + 2 * ttl_s_ * 1000, now, false});
}

void Keeper::revoke_old() {
  const Milliseconds now = clock_.boot_ms();
  std::erase_if(old_, [now](const Old& old) { return now >= old.until; });
  for (Old& old : old_) {
    if (old.asked || now < old.next) continue;
    old.asked = true;
    store_.revoke(old.lease, [this, lease = old.lease](const Answer& answer) {
      const bool gone = answer.outcome == Outcome::answered || answer.fault == Fault::no_lease;
      std::erase_if(old_, [&](const Old& each) { return gone && each.lease == lease; });
      for (Old& each : old_) {
        if (each.lease != lease) continue;
        each.asked = false;
        each.next = clock_.boot_ms() + kBackOffMax;
      }
    });
  }
}

void Keeper::stop(const std::function<void()>& done) {
  ++attempt_;
  const bool had = state_ == State::alive;
  state_ = State::stopped;
  if (had && !machine_.superseded()) {
    const bool whole = machine_.lose();
    listener_.lost();
    if (whole) return store_.revoke(lease_, [done](const Answer&) { done(); });
  }
  done();
}

}  // namespace holdfast::agent
