#include "lock/watch.h"

#include "world/world.h"

namespace holdfast {

bool Living::operator()(Token token) noexcept {
  if (token == self_) return true;
  Answer& answer = answers_[slot_of(token) % kAnswers];
  if (answer.token != token) answer = {token, world_.alive(token)};
  return answer.alive;
}

}  // namespace holdfast
