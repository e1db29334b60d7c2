#include "service/standby.h"

#include <poll.h>

#include <array>

#include "gate/question.h"

namespace holdfast::agent {

// A connection over which nothing is asked: it ends with the other agent. One that has taken over from that one has a
// socket of its own.
bool await_vacancy(const RuntimeDirectory& directory, const std::string& cluster, int signals) {
  while (auto other = connect_agent(directory, cluster)) {
    std::array<pollfd, 2> both{{{other->get(), POLLIN, 0}, {signals, POLLIN, 0}}};
    ::poll(both.data(), both.size(), -1);
    if (both[1].revents != 0) return false;
  }
  return true;
}

}  // namespace holdfast::agent
