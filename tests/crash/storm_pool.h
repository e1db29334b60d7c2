// The part of the kill storm that shares permits: readers and writers, and semaphores.
//
// Each worker writes down its share of a pool after it was granted and takes it back before it gives it up. So what the
// living have written down is held by them, and together never more than there is: a writer has all.
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

  /// Takes some permits of the pool, or all, and gives them back.
  void use(std::size_t number);

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool acquire(std::size_t number, std::uint32_t want, holdfast_lease* lease);
  void keep(std::size_t number, const holdfast_lease& lease, std::uint32_t count);
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

/// When everybody is dead: all permits can be had, and nobody else is said to hold one. Removes the pools.
void check_pools(test::Dict& dict, Ledger& ledger);

}  // namespace holdfast::crash
