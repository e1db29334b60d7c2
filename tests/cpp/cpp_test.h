// A fixture that gives each test of holdfast.hpp a new dictionary. The test process has its own world.
#pragma once

#include <gtest/gtest.h>
#include <holdfast.hpp>

#include <string>

#include "support/process.h"

namespace holdfast::test {

using namespace std::chrono_literals;

inline const ScratchDirectory directory;

inline constexpr std::uint64_t kSize = 1 << 20;

class CppTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(dictionary::remove(name)); }

  static std::string new_name() {
    static int count = 0;
    return "dictionary-" + std::to_string(++count);
  }
  /// Returns whether another process could get the lock now.
  bool is_free(const std::string& key) {
    Child child([&](Channel&) { return dict.lock(key, duration(0)) ? 0 : 1; });
    return child.wait() == 0;
  }
  std::uint32_t waiters(const std::string& key) {
    std::uint32_t holders = 0;
    std::uint32_t count = 0;
    EXPECT_EQ(holdfast_holders(dict.handle(), key.data(), key.size(), nullptr, 0, &holders, &count), HOLDFAST_OK);
    return count;
  }
  void await_waiters(const std::string& key, std::uint32_t count) {
    EXPECT_TRUE(eventually([&] { return waiters(key) == count; })) << waiters(key);
  }

  const std::string name = new_name();
  dictionary dict = dictionary::open(name, {.size = kSize}).value();
};

}  // namespace holdfast::test
