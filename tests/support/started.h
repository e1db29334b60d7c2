// Child processes that report their start.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "support/process.h"

namespace holdfast::test {

/// A child that first reports `line`. The constructor waits for this line.
class Started : public Child {
 public:
  Started(const std::string& line, const std::function<int(Channel&)>& body) : Child(body) {
    const std::string said = hear();
    if (said != line) throw std::runtime_error("a child began with \"" + said + "\", not with \"" + line + "\"");
  }
};

/// A started child that runs a body of EXPECTs and then stays alive.
class Resident : public Started {
 public:
  explicit Resident(const std::function<void()>& body)
      : Started("resident", [&body](Channel& parent) {
          body();
          if (::testing::Test::HasFailure()) return 1;
          parent.say("resident");
          parent.hear();
          return 0;
        }) {}
};

/// Runs a body of EXPECTs in a new process.
inline void in_process(const std::function<void()>& body) {
  Child child([&](Channel&) {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Runs a body of EXPECTs in a new process and a new world.
inline void in_a_world(const std::function<void()>& body) {
  const ScratchDirectory directory;
  in_process(body);
}

}  // namespace holdfast::test
