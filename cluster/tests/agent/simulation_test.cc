// Runs simulations of a cluster's locks (simulation.h), each with about 10^5 events. HOLDFAST_TEST_SEED sets the seeds.
// Each failure prints its seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "agent/simulation.h"

namespace holdfast::test {
namespace {

std::uint64_t first_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("HOLDFAST_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  }();
  return seed;
}

StoreFaults bad_network() {
  StoreFaults faults;
  faults.lost_request = faults.lost_answer = faults.late = faults.doubled = faults.no_leader = 0.01;
  faults.lost_ring = faults.late_ring = faults.doubled_ring = 0.05;
  return faults;
}

void run(const char* name, const Scene& scene, int times) {
  for (int i = 0; i < times; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    Simulation simulation(seed, scene);
    EXPECT_THAT(simulation.run(), ::testing::IsEmpty()) << "HOLDFAST_TEST_SEED=" << seed;
    EXPECT_GT(simulation.sections(), 0U);
    std::printf("%s: seed %llu, %llu sections, %llu lost, %llu overlaps, longest wait %.3f s\n", name,
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(simulation.sections()),
                static_cast<unsigned long long>(simulation.losses()),
                static_cast<unsigned long long>(simulation.overlaps()),
                static_cast<double>(simulation.longest_wait()) / 1e6);
  }
}

/// Makes programs pause for longer, so that more faults happen in the same number of events.
Scene troubled() {
  Scene scene;
  scene.think = 60'000;
  scene.section = 2'000;
  scene.steps = 50'000;
  return scene;
}

TEST(Simulation, without_faults_no_wait_needs_the_poll) {
  Scene scene = troubled();
  scene.longest_wait = 500'000;
  run("calm", scene, 1);
}

TEST(Simulation, one_lock_passes_between_many_machines_in_order) {
  Scene scene;
  scene.machines = 12;
  scene.programs = 1;
  scene.keys = 1;
  scene.longest_wait = 500'000;
  scene.steps = 50'000;
  run("one lock", scene, 1);
}

TEST(Simulation, agents_that_return_soon_continue_where_they_were) {
  Scene scene = troubled();
  scene.trouble.agent_killed = 0.05;
  run("restarts", scene, 1);
}

TEST(Simulation, lost_late_and_repeated_messages_break_nothing) {
  Scene scene = troubled();
  scene.trouble.store = bad_network();
  scene.steps = 100'000;
  run("network", scene, 2);
}

TEST(Simulation, deaths_pauses_and_cuts_break_nothing) {
  Scene scene = troubled();
  scene.trouble.agent_killed = scene.trouble.agent_stopped = 0.01;
  scene.trouble.machine_dies = scene.trouble.machine_cut = scene.trouble.store_away = 0.01;
  scene.trouble.second_agent = scene.trouble.clock_leaps = 0.01;
  run("deaths", scene, 4);
}

TEST(Simulation, all_faults_together_break_nothing) {
  Scene scene = troubled();
  scene.trouble.store = bad_network();
  scene.trouble.agent_killed = scene.trouble.agent_stopped = 0.02;
  scene.trouble.machine_dies = scene.trouble.machine_cut = 0.005;
  scene.trouble.second_agent = 0.01;
  scene.steps = 100'000;
  run("all", scene, 3);
}

TEST(Simulation, a_store_that_revokes_early_is_detected_and_abandoned) {
  Scene scene = troubled();
  scene.trouble.early_revoke = 0.05;
  scene.trouble.exclusion_may_fail = true;
  run("early", scene, 2);
}

}  // namespace
}  // namespace holdfast::test
