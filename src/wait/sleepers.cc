#include "wait/sleepers.h"

#include "platform/platform.h"

namespace holdfast {

bool Sleepers::lie_down(Berth& berth, bool relieves) noexcept {
  if (listener_ == nullptr || relieves) {
    listener_ = &berth;
    return true;
  }
  berth.before = nullptr;
  berth.after = first_;
  if (first_ != nullptr) first_->before = &berth;
  first_ = &berth;
  berth.asleep = true;
  return false;
}

void Sleepers::get_up(Berth& berth) noexcept {
  if (listener_ == &berth) listener_ = nullptr;
  if (berth.asleep) unlink(berth);
}

void Sleepers::unlink(Berth& berth) noexcept {
  (berth.before != nullptr ? berth.before->after : first_) = berth.after;
  if (berth.after != nullptr) berth.after->before = berth.before;
  berth.asleep = false;
}

void Sleepers::wake(Berth& berth) noexcept {
  if (!berth.asleep) return;
  unlink(berth);
  // Change the word first: a thread that is about to sleep then does not, as the kernel compares the word.
  berth.word.fetch_add(1, kRelaxed);
  platform::futex_wake(berth.word, 1);
}

void Sleepers::forget() noexcept {
  while (first_ != nullptr) unlink(*first_);
  listener_ = nullptr;
}

void Sleepers::appoint() noexcept {
  if (listener_ == nullptr && first_ != nullptr) wake(*first_);
}

}  // namespace holdfast
