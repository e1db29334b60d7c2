// The parts that the tests of the project's own protocols share.
//
// A protocol is a structure with the protocol's steps, and with the orderings that the sources use. The claims must
// hold with these orderings, and must break if an ordering is weakened or a step is left out. The tests quote the
// source lines that they model. Each quote must exist in the sources, so a change of such a line makes a test fail.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "weak/litmus.h"

namespace holdfast::weak {

inline constexpr auto kRelaxed = Order::relaxed;
inline constexpr auto kAcquire = Order::acquire;
inline constexpr auto kRelease = Order::release;
inline constexpr auto kAcqRel = Order::acq_rel;
inline constexpr auto kSeqCst = Order::seq_cst;

/// Takes a free mutex, or stops the thread.
void lock(Thread& t, Location mutex, Value me, Order order = kAcquire);
/// Releases a mutex, unless another process has taken it over.
void unlock(Thread& t, Location mutex, Value me, Order order = kRelease);

/// Returns the combined findings of all programs that exercise a protocol.
Findings explore_all(const std::vector<Program>& programs);

/// The base class of protocols. The members of a protocol are its parts, which register their faults. An ordering that
/// no claim needs has the type Order.
class Protocol {
 public:
  struct Fault {
    std::string part;
    std::function<void()> plant;
  };

  Protocol() = default;
  Protocol(const Protocol&) {}  // a copy has no faults
  Protocol& operator=(const Protocol&) = delete;

  void add(Fault fault) { faults_.push_back(std::move(fault)); }
  /// Removes the faults of a part that belongs to a base class. Other programs show that this part is needed.
  void leave_out(const std::string& part) {
    std::erase_if(faults_, [&](const Fault& fault) { return fault.part == part; });
  }
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

/// An ordering in the sources, and the weaker orderings that must not be enough.
class Ordering {
 public:
  Ordering(Protocol* protocol, const char* name, Order order, std::initializer_list<Order> weaker = {kRelaxed})
      : order_(order) {
    for (const Order fault : weaker) protocol->add({name, [this, fault] { order_ = fault; }});
  }
  operator Order() const { return order_; }
  void relax() { order_ = kRelaxed; }

 private:
  Order order_;
};

/// A step that must not be left out.
class Precaution {
 public:
  Precaution(Protocol* protocol, const char* name) {
    protocol->add({name, [this] { taken_ = false; }});
  }
  operator bool() const { return taken_; }

 private:
  bool taken_ = true;
};

/// Checks that the claims hold, and that each fault in the protocol breaks a claim.
template <class Rules>
void expect_proof(std::vector<Program> (*programs)(const Rules&)) {
  const Findings sound = explore_all(programs(Rules{}));
  EXPECT_TRUE(sound.holds()) << sound.text();
  EXPECT_GT(sound.executions, 0U);
  testing::Test::RecordProperty("executions", std::to_string(sound.executions));
  const std::size_t faults = Rules{}.faults().size();
  for (std::size_t i = 0; i < faults; ++i) {
    const Rules faulty;
    faulty.faults()[i].plant();
    EXPECT_FALSE(explore_all(programs(faulty)).holds()) << "not needed: " << faulty.faults()[i].part;
  }
  std::printf("%llu executions, %zu faults\n", static_cast<unsigned long long>(sound.executions), faults);
}

/// A quotation from a source file. White space does not matter.
struct Quote {
  const char* file;
  const char* line;
};
void expect_quotes(const std::vector<Quote>& quotes);

}  // namespace holdfast::weak
