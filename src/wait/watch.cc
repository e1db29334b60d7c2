#include "wait/watch.h"

#include "world/world.h"

namespace holdfast {

Liveness LivenessCache::judge(Token token) noexcept {
  if (token == self_) return Liveness::alive;
  Answer& answer = answers_[slot_of(token) % kAnswers];
  if (answer.token != token) answer = {token, world_.judge(token)};
  return answer.liveness;
}

}  // namespace holdfast
