// Tests readers, which take no lock, while a writer dies and another process repairs the dictionary.
#include <gtest/gtest.h>

#include <string>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kSize = 32768;  // one shard

/// Fills the free memory without evicting anything.
int fill_with(Dict& dict, char byte) {
  constexpr std::size_t kPiece = 1000;
  for (int i = 0; dict.free_space() > 4 * kPiece; ++i)
    if (const int code = dict.store(HOLDFAST_SAFE_SET, "filler-" + std::to_string(i), std::string(kPiece, byte), 0, 0);
        code != HOLDFAST_OK)
      return code;
  return HOLDFAST_OK;
}

// The writer unlinks the entry, and dies before it announces this to readers that are at the entry. The repair then
// finds nothing to unlink. Fails if the repair does not announce the change itself before it overwrites the entry ("a
// repair without its first epoch").
TEST(interleave_repair, a_reader_of_an_entry_that_a_dead_writer_cut_off_never_sees_the_reused_memory) {
  const ScratchDirectory directory;
  const std::string old(4000, 'o');
  Dict* opened = nullptr;
  const auto open = [&] {
    static Dict dict("dict", {.size = kSize});
    opened = &dict;
    return dict.status;
  };
  Started reader("stored", [&](Channel& parent) {
    if (open() != HOLDFAST_OK || opened->set("key", old) != HOLDFAST_OK) return 1;
    parent.say("stored");
    parent.hear();
    pause_at("read.found", parent);
    const Got got = opened->get("key");
    parent.say(got == text(old)   ? "the old value"
               : got == nothing() ? "nothing"
                                  : "code " + std::to_string(got.code) + ", " + std::to_string(got.text.size()) +
                                        " bytes, first '" + got.text.substr(0, 1) + "'");
    return 0;
  });
  ASSERT_EQ(reader.ask("read"), "at read.found");

  Started writer("at arena.release", [&](Channel& parent) {
    if (open() != HOLDFAST_OK) return 1;
    pause_at("arena.release", parent);
    return opened->remove("key");
  });
  writer.kill_and_wait();

  Started repairer("repaired and filled", [&](Channel& parent) {
    if (open() != HOLDFAST_OK) return 1;
    const int code = fill_with(*opened, 'n');
    parent.say(code == HOLDFAST_OK && opened->stats().repairs == 1 ? "repaired and filled" : holdfast_error());
    return 0;
  });
  reader.say("go on");
  const std::string seen = reader.hear();
  EXPECT_TRUE(seen == "the old value" || seen == "nothing") << seen;
}

}  // namespace
}  // namespace holdfast::test
