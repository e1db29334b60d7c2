// The part of the kill storm that uses permits, in read-write locks and in semaphores.
//
// Each worker records its share of a pool after the grant, and clears the record before the release. So live processes
// hold at least the permits that they have recorded, and the sum of the recorded shares never exceeds the total. A
// writer holds all permits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "crash/storm.h"
#include "holdfast.h"
#include "support/dict.h"

namespace holdfast::crash {

class PoolUser {
 public:
  PoolUser(test::Dict& dict, Ledger& ledger, int self, std::mt19937_64& random, holdfast_parker* parker,
           std::uint32_t waiter);

  void use(std::size_t number);

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool acquire(std::size_t number, std::uint32_t want, holdfast_lease* lease);
  void keep(std::size_t number, const holdfast_lease& lease, std::uint32_t count);
  void upgrade(std::size_t number, const holdfast_lease& lease);
  void note(Pool& pool, std::uint32_t count);
  void check_sum(std::size_t number);
  void stay(std::size_t number, bool writes);

  test::Dict& dict_;
  Ledger& ledger_;
  const std::size_t self_;
  std::mt19937_64& random_;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
};

/// Checks that all permits can be taken and that no other process counts as a holder. Removes the pools. REQUIRES: all
/// workers are dead.
void check_pools(test::Dict& dict, Ledger& ledger);

}  // namespace holdfast::crash
