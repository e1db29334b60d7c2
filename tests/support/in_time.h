// For tests of behaviour that the library promises only to processes that are not delayed. A grant to a waiter lapses
// after 50 ms, and a short lease may expire just as fast. On a busy machine, a process may be delayed for longer at any
// point, and then the library rightly behaves differently.
//
// TEST_IN_TIME(Fixture, name) is a TEST_F that does not count a delayed attempt. If a failed attempt took longer than
// its intended sleep plus kInTime, it runs again in a new fixture. A fault in the library makes every attempt fail,
// even an attempt that was not delayed. Use TEST_IN_TIME for all tests of a suite, or for none.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "support/clock.h"

namespace holdfast::test {

/// Shorter than any grant or lease that these tests expect to last.
inline constexpr double kInTime = 0.04;
/// After this many seconds of attempts, a failure counts, whatever caused the delays.
inline constexpr double kPatienceInTime = 60;

template <class Body>
class Attempt : public Body {
 public:
  static void until_in_time() {
    const double end = now() + kPatienceInTime;
    for (;;) {
      ::testing::TestPartResultArray results;
      const double start = now();
      const double slept_before = slept();
      {
        const ::testing::ScopedFakeTestPartResultReporter unheard(
            ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
        Attempt().run(results);
      }
      const bool in_time = now() - start <= slept() - slept_before + kInTime;
      if (has_failed(results) && !in_time && now() < end) continue;
      for (int i = 0; i < results.size(); ++i) report(results.GetTestPartResult(i));
      return;
    }
  }

 private:
  void run(const ::testing::TestPartResultArray& results) {
    this->SetUp();
    if (!has_failed(results)) this->body();
    this->TearDown();
  }
  void TestBody() override {}

  static bool has_failed(const ::testing::TestPartResultArray& results) {
    for (int i = 0; i < results.size(); ++i)
      if (results.GetTestPartResult(i).failed()) return true;
    return false;
  }
  static void report(const ::testing::TestPartResult& result) {
    if (result.failed()) ADD_FAILURE_AT(result.file_name(), result.line_number()) << result.message();
  }
};

}  // namespace holdfast::test

#define TEST_IN_TIME(Fixture, name)                                                            \
  struct Fixture##_##name##_Body : Fixture {                                                   \
    void body();                                                                               \
  };                                                                                           \
  TEST(Fixture, name) { ::holdfast::test::Attempt<Fixture##_##name##_Body>::until_in_time(); } \
  void Fixture##_##name##_Body::body()
