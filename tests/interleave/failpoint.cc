#include "interleave/failpoint.h"

#include "base/failpoint.h"

#include <map>
#include <mutex>
#include <utility>

namespace holdfast {
namespace {

std::mutex mutex;

std::map<std::string, std::function<void()>>& actions() {
  static std::map<std::string, std::function<void()>> all;
  return all;
}

}  // namespace

void reach_failpoint(const char* name) noexcept {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex);
    const auto found = actions().find(name);
    if (found == actions().end()) return;
    action = std::move(found->second);
    actions().erase(found);
  }
  action();
}

namespace test {

void at_failpoint(const std::string& name, std::function<void()> action) {
  const std::lock_guard lock(mutex);
  actions()[name] = std::move(action);
}

void pause_at(const std::string& name, Channel& channel) {
  at_failpoint(name, [name, &channel] {
    channel.say("at " + name);
    channel.hear();
  });
}

}  // namespace test
}  // namespace holdfast
