#include "wait/wait_table.h"

#include <algorithm>
#include <cstring>
#include "world/process_table.h"

namespace holdfast {

static_assert(sizeof(WaitTableMemory) == kWaitTableBytes && alignof(WaitTableMemory) == kWaitTableAlign);

namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93;
  return x ^ x >> 32;
}

std::uint32_t begin_writing(WaitRecord& record) noexcept {
  const std::uint32_t stamp = record.stamp.load(kRelaxed) | 1;
  record.stamp.store(stamp, kRelaxed);
  std::atomic_thread_fence(kRelease);  // pairs with the acquire fence in find(), which then sees the odd stamp
  return stamp;
}

void end_writing(WaitRecord& record, std::uint32_t stamp) noexcept {
  record.stamp.store(stamp + 1, kRelease);  // pairs with the acquire load in find()
}

}  // namespace

void Wait::set_key(std::string_view whole) noexcept {
  key.fill('\0');
  key_length = static_cast<std::uint32_t>(whole.size());
  whole.copy(key.data(), key.size());
}

std::string_view Wait::kept_key() const noexcept { return {key.data(), std::min<std::size_t>(key_length, key.size())}; }

WaitRecord& WaitTable::probe(Token token, std::uint32_t task, std::uint32_t step) const noexcept {
  return memory_->records[(mix(token ^ mix(task)) + step) % kWaitRecords];
}

WaitRecord* WaitTable::take(Token token, std::uint32_t task, const std::function<Liveness(Token)>& judge) noexcept {
  for (std::uint32_t step = 0; step < kProbe; ++step) {
    WaitRecord& record = probe(token, task, step);
    Token owner = record.owner.load(kRelaxed);
    if (owner == kNobody && record.owner.compare_exchange_strong(owner, token, kAcquire, kRelaxed)) return &record;
  }
  for (std::uint32_t step = 0; step < kProbe; ++step) {
    WaitRecord& record = probe(token, task, step);
    Token owner = record.owner.load(kRelaxed);
    if (owner != token && judge(owner) == Liveness::dead &&
        record.owner.compare_exchange_strong(owner, token, kAcquire, kRelaxed))
      return &record;
  }
  return nullptr;
}

void WaitTable::write(WaitRecord& record, const Wait& wait) noexcept {
  const std::uint32_t stamp = begin_writing(record);
  record.task.store(wait.task, kRelaxed);
  record.token.store(wait.token, kRelaxed);
  record.since.store(wait.since, kRelaxed);
  record.seen.store(wait.seen, kRelaxed);
  record.holder.store(wait.blocker.token, kRelaxed);
  record.holder_sequence.store(wait.blocker.sequence, kRelaxed);
  record.holder_end.store(wait.blocker.end_ms, kRelaxed);
  record.holder_task.store(wait.blocker.task, kRelaxed);
  record.key_length.store(wait.key_length, kRelaxed);
  for (std::size_t i = 0; i < record.key.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, wait.key.data() + i * sizeof word, sizeof word);
    record.key[i].store(word, kRelaxed);
  }
  end_writing(record, stamp);
}

// Clears the task before the owner, so that nobody reads the old wait if this process takes the record again and has
// not written the new wait yet.
void WaitTable::release(WaitRecord& record) noexcept {
  const std::uint32_t stamp = begin_writing(record);
  record.task.store(0, kRelaxed);
  end_writing(record, stamp);
  record.owner.store(kNobody, kRelease);
}

WaitTable::Found WaitTable::find(Token token, std::uint32_t task, Wait& wait) const noexcept {
  bool torn = false;
  for (std::uint32_t step = 0; step < kProbe; ++step) {
    const WaitRecord& record = probe(token, task, step);
    if (record.owner.load(kAcquire) != token) continue;
    const std::uint32_t stamp = record.stamp.load(kAcquire);
    wait.task = record.task.load(kRelaxed);
    if (wait.task != task) continue;
    wait.token = record.token.load(kRelaxed);
    wait.since = record.since.load(kRelaxed);
    wait.seen = record.seen.load(kRelaxed);
    wait.blocker = {record.holder.load(kRelaxed), record.holder_task.load(kRelaxed),
                    record.holder_sequence.load(kRelaxed), record.holder_end.load(kRelaxed)};
    wait.key_length = record.key_length.load(kRelaxed);
    for (std::size_t i = 0; i < record.key.size(); ++i) {
      const std::uint64_t word = record.key[i].load(kRelaxed);
      std::memcpy(wait.key.data() + i * sizeof word, &word, sizeof word);
    }
    std::atomic_thread_fence(kAcquire);
    const bool whole = (stamp & 1) == 0 && record.stamp.load(kRelaxed) == stamp;
    // Also check the token in the record, because between two owners, the other words still belong to the first one.
    if (whole && wait.token == token) return Found::yes;
    torn = torn || !whole;
  }
  return torn ? Found::unreadable : Found::no;
}

}  // namespace holdfast
