// A fixture with a client of the store. It waits for the store's answers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etcd/etcd_store.h"
#include "support/process.h"

namespace holdfast::test {

using agent::Answer;
using agent::Change;
using agent::Fault;
using agent::Guard;
using agent::LeaseId;
using agent::Outcome;
using agent::Record;
using agent::Revision;
using agent::Step;

class StoreTest : public ::testing::Test {
 protected:
  /// Runs the loop until the condition is true. Returns false after kPatience.
  bool await(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_.turn(20);
    }
    return true;
  }
  /// Runs the loop for this time, during which nothing should happen.
  void idle(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) loop_.turn(5);
  }

  /// Returns options whose timeout is longer than any answer takes, even on a slow machine.
  etcd::Options options(std::vector<std::string> endpoints) {
    etcd::Options options;
    options.endpoints = std::move(endpoints);
    options.timeout_ms = 20000;
    options.complain = [this](const std::string& sentence) { complaints_.push_back(sentence); };
    return options;
  }
  void open(etcd::Options options) {
    store_.reset();
    store_ = std::make_unique<etcd::EtcdStore>(loop_, std::move(options));
  }

  template <class Result>
  Result ask(const std::function<void(std::function<void(const Result&)>)>& call) {
    std::optional<Result> result;
    call([&](const Result& answer) { result = answer; });
    EXPECT_FALSE(result) << "a callback ran inside the call";
    if (!await([&] { return result.has_value(); })) throw std::runtime_error("no callback came");
    return *result;
  }
  Answer transact(const Change& change) {
    return ask<Answer>([&](auto done) { store_->transact(change, done); });
  }
  agent::LeaseAnswer grant(std::int64_t ttl_s) {
    return ask<agent::LeaseAnswer>([&](auto done) { store_->grant(ttl_s, done); });
  }
  agent::LeaseAnswer keep_alive(LeaseId lease) {
    return ask<agent::LeaseAnswer>([&](auto done) { store_->keep_alive(lease, done); });
  }
  agent::LeaseAnswer keys_of(LeaseId lease) {
    return ask<agent::LeaseAnswer>([&](auto done) { store_->keys_of(lease, done); });
  }
  Answer revoke(LeaseId lease) {
    return ask<Answer>([&](auto done) { store_->revoke(lease, done); });
  }
  void watch(const std::string& key) {
    store_->watch(key, [this](const Record& record) { rung_.push_back(record); });
  }
  bool has_complained(const std::string& part) const {
    for (const std::string& sentence : complaints_)
      if (sentence.find(part) != std::string::npos) return true;
    return false;
  }

  etcd::Loop loop_;
  std::vector<std::string> complaints_;
  std::vector<Record> rung_;
  std::unique_ptr<etcd::EtcdStore> store_;
};

}  // namespace holdfast::test
