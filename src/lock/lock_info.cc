#include "lock/lock_info.h"

#include <algorithm>
#include <cstring>

#include "dict/expiry.h"
#include "dict/holder_list.h"
#include "dict/wait_queue.h"
#include "lock/lock_entry.h"
#include "platform/platform.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

void read_lock(Transaction& change, HolderInfo& holder) noexcept {
  const EntryView& view = change.view();
  const LockEntry lock = LockEntry::of(change);
  // A lease must not be used before its grant is complete, so report only the process.
  if (!wait_until_complete(lock.fields)) {
    holder.lease.owner = lock.owner();
    holder.since_ns = platform::monotonic_ns();
    return;
  }
  holder.lease = {lock.owner(), lock.sequence()};
  holder.since_ns = Since{lock.fields.since.load(kRelaxed)}.ns();
  holder.end_ms = lock.end_ms();
  if (lock.gate != nullptr) lock.segment.gate()->is_seen_to_count(lock.segment, *lock.gate, holder.revision);
  const HolderList reason = reason_of(change.shard(), change.arena(), view);
  const HolderList::Cursor at(reason);
  if (at.found() && at.is_of(holder.lease.owner, holder.lease.sequence))
    at.copy_reason(holder.reason.data(), kReasonMax);
}

// Reads the holders of permits. The chain begins with the youngest grant. If not all fit, keeps the oldest grants.
void read_permits(Transaction& change, std::span<HolderInfo> holders, std::uint32_t& count) noexcept {
  const std::uint32_t flush = change.flush_epoch();
  const std::uint64_t entry_end = change.view().entry->expiry.load(kRelaxed);
  const HolderList records = holders_of(change.shard(), change.arena(), change.view());
  const bool is_rwlock = change.view().entry->flags.load(kRelaxed) == static_cast<std::uint32_t>(PermitsKind::rwlock);
  for (HolderList::Cursor at(records); at.found(); at.advance()) {
    const std::uint64_t end = earlier(entry_end, at.expiry().load(kRelaxed));
    if (!is_live(end, flush)) continue;
    const std::uint32_t index = count++;
    if (holders.empty()) continue;
    const Holder record = at.copy();
    HolderInfo& holder = holders[index % holders.size()];
    holder = {};
    holder.lease = {record.owner, record.sequence};
    holder.kind = is_rwlock ? HeldKind::rwlock : HeldKind::semaphore;
    holder.since_ns = record.since.ns();
    holder.end_ms = expiry_ms(end);
    holder.permits = record.count;
    at.copy_reason(holder.reason.data(), kReasonMax);
  }
}

/// Writes `reason` for the lease. Returns not_owner if the lease was not found, or no_memory if the arena has no
/// suitable free run at the moment.
Code write_reason(Transaction& change, const Lease& lease, std::string_view reason) noexcept {
  if (!change.exists() || !is_holdable(change.view().type)) return Code::not_owner;
  const EntryView& view = change.view();
  Arena& arena = change.arena();
  const bool is_lock = view.type == EntryType::lock;
  if (is_lock) {
    const Code code = judge_grant(change, lease);
    if (code != Code::ok) return code == Code::not_found ? Code::not_owner : code;
  }
  HolderList records = is_lock ? reason_of(change.shard(), arena, view) : holders_of(change.shard(), arena, view);
  HolderList::Cursor at = is_lock ? HolderList::Cursor(records) : records.find(lease.owner, lease.sequence);
  if (arena.damaged()) return Code::corrupt;
  if (!is_lock && (!at.found() || !is_live(at.expiry().load(kRelaxed), change.flush_epoch()))) return Code::not_owner;
  if (is_lock && reason.empty()) {
    records.clear();
    return arena.damaged() ? Code::corrupt : Code::ok;
  }
  Holder record;
  record.owner = lease.owner;
  record.sequence = lease.sequence;
  if (!is_lock) record = at.copy();
  record.reason = reason;
  const std::uint32_t block = HolderList::create(arena, change.shard(), view.entry->hash.load(kRelaxed), record);
  if (block == 0) return Code::no_memory;
  if (at.found())
    at.replace(block);
  else
    records.add(block);
  return Code::ok;
}

}  // namespace

void put_in_order(std::span<HolderInfo> holders, std::uint32_t count) noexcept {
  if (count > holders.size() && !holders.empty()) {
    const std::span<HolderInfo> oldest = holders.subspan(count % holders.size());
    std::rotate(holders.begin(), oldest.begin(), holders.end());
  }
  const std::span<HolderInfo> written = holders.first(std::min<std::size_t>(count, holders.size()));
  std::reverse(written.begin(), written.end());
}

void describe_process(World& world, HolderInfo& holder) noexcept {
  holder.worker = kNoWorker;
  const ProcessSlot* slot = world.slot(holder.lease.owner);
  if (slot == nullptr) return;
  holder.pid = slot->pid.load(kRelaxed);
  holder.worker = slot->worker.load(kRelaxed);
  for (std::size_t i = 0; i < slot->comm.size(); ++i) {
    const std::uint64_t word = slot->comm[i].load(kRelaxed);
    std::memcpy(holder.program.data() + i * sizeof word, &word, sizeof word);
  }
  holder.program.back() = '\0';
}

Code find_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders, HolderCount& count,
                  std::uint64_t patience_ns) noexcept {
  const auto find = [&](Transaction& change) {
    count = {};
    if (!change.found() || !is_holdable(change.view().type)) return Code::ok;
    const EntryView& view = change.view();
    count.waiters = WaitQueue(change.shard(), change.arena(), view.queue()).count();
    if (view.type == EntryType::lock)
      count.waiters += WaitQueue(change.shard(), change.arena(), view.lock().watchers, EntryType::watcher).count();
    if (change.exists()) {
      if (view.type == EntryType::permits)
        read_permits(change, holders, count.holders);
      else if (LockEntry::of(change).grant_counts() && (++count.holders, !holders.empty()))
        read_lock(change, holders.front() = {});
    }
    return change.arena().damaged() ? Code::corrupt : Code::ok;
  };
  const Code code = dictionary.transact(key, find, patience_ns);
  if (code != Code::ok) return code;
  put_in_order(holders, count.holders);
  for (HolderInfo& holder : holders.first(std::min<std::size_t>(count.holders, holders.size()))) {
    holder.liveness = dictionary.world().judge(holder.lease.owner);
    describe_process(dictionary.world(), holder);
  }
  return code;
}

Code explain(Dictionary& dictionary, std::string_view key, const Lease& lease, std::string_view reason) noexcept {
  const Token self = dictionary.world().token();
  if (self == kNobody || lease.owner != self) return Code::not_owner;
  return dictionary.transact(key, [&](Transaction& change) {
    // Search again after making room, because the lease may have ended in the meantime.
    for (int tries = 0;; ++tries) {
      if (!change.found()) return Code::not_owner;
      const Code code = write_reason(change, lease, reason);
      if (code != Code::no_memory || tries == 2) return change.arena().damaged() ? Code::corrupt : code;
      const Code room = change.make_room(HolderList::granules(reason.size()), Evict::yes);
      if (room != Code::ok) return room;
    }
  });
}

}  // namespace holdfast
