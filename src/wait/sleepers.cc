#include "wait/sleepers.h"

#include "platform/platform.h"

namespace holdfast {

bool Sleepers::enter(SleepSlot& slot, bool relieves) noexcept {
  if (listener_ == nullptr || relieves) {
    listener_ = &slot;
    return true;
  }
  slot.before = nullptr;
  slot.after = first_;
  if (first_ != nullptr) first_->before = &slot;
  first_ = &slot;
  slot.asleep = true;
  return false;
}

void Sleepers::leave(SleepSlot& slot) noexcept {
  if (listener_ == &slot) listener_ = nullptr;
  if (slot.asleep) unlink(slot);
}

void Sleepers::unlink(SleepSlot& slot) noexcept {
  (slot.before != nullptr ? slot.before->after : first_) = slot.after;
  if (slot.after != nullptr) slot.after->before = slot.before;
  slot.asleep = false;
}

void Sleepers::wake(SleepSlot& slot) noexcept {
  if (!slot.asleep) return;
  unlink(slot);
  // Change the word first. The kernel compares it, so a thread that is about to sleep returns immediately.
  slot.word.fetch_add(1, kRelaxed);
  platform::futex_wake(slot.word, 1);
}

void Sleepers::forget() noexcept {
  while (first_ != nullptr) unlink(*first_);
  listener_ = nullptr;
}

void Sleepers::elect_listener() noexcept {
  if (listener_ == nullptr && first_ != nullptr) wake(*first_);
}

}  // namespace holdfast
