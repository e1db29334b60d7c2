// Tests readers of large values while writers change other keys, or the same key, during the copy.
#include <gtest/gtest.h>

#include <string>

#include "interleave/failpoint.h"
#include "support/clock.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kSize = 65536;  // one shard
constexpr std::size_t kLarge = 20000;

std::string say_what(const Got& got) {
  if (got.code != HOLDFAST_OK) return "code " + std::to_string(got.code);
  const bool one_byte = got.text.find_first_not_of(got.text[0]) == std::string::npos;
  return std::to_string(got.text.size()) + (one_byte ? std::string(" ") + got.text[0] : " of several");
}

class InterleaveRead : public ::testing::Test {
 protected:
  static Dict& dict() {
    static Dict opened("dict", {.size = kSize});
    return opened;
  }
  /// Reads the key, and is held after it has found it. Then reports the value.
  static int read_in_two_steps(const std::string& key, Channel& parent) {
    pause_at("read.found", parent);
    parent.say("stored");
    parent.hear();
    parent.say(say_what(dict().get(key)));
    return 0;
  }

  const ScratchDirectory directory_;
};

// Fails if a reader starts again after every change in the shard, because large values would then be read many times.
TEST_F(InterleaveRead, a_copy_of_a_large_value_counts_even_if_other_keys_change_during_it) {
  Started reader("stored", [](Channel& parent) {
    // The last set frees memory. So the large value was stored in an earlier epoch, which the reader can detect.
    if (dict().set("large", std::string(kLarge, 'v')) != HOLDFAST_OK || dict().set("other", "1") != HOLDFAST_OK ||
        dict().set("other", "2") != HOLDFAST_OK)
      return 1;
    pause_at("read.found", parent);
    parent.say("stored");
    parent.hear();
    int copies = 1;
    at_failpoint("read.copied", [&] { at_failpoint("read.found", [&] { ++copies; }); });
    const std::string got = say_what(dict().get("large"));
    parent.say(got + ", copied " + std::to_string(copies));
    return 0;
  });
  ASSERT_EQ(reader.ask("read"), "at read.found");
  Started writer("0", [](Channel& parent) {
    int code = HOLDFAST_OK;
    for (int i = 0; i < 100; ++i) code |= dict().set("other", std::to_string(i));
    parent.say(std::to_string(code));
    return 0;
  });
  EXPECT_EQ(reader.ask("go on"), "20000 v, copied 1");
}

// Fails if the reader loads the expiry before a change and compares it with a time that it reads after the change.
TEST_F(InterleaveRead, a_key_renewed_in_time_exists_for_a_reader_that_slept_past_its_old_expiry) {
  Started reader("stored", [](Channel& parent) {
    if (dict().set("key", "value", 1) != HOLDFAST_OK) return 1;
    return read_in_two_steps("key", parent);
  });
  ASSERT_EQ(reader.ask("read"), "at read.found");
  Started writer("renewed", [](Channel& parent) {
    if (dict().expire("key", 1000) != HOLDFAST_OK) return 1;
    parent.say("renewed");
    return 0;
  });
  sleep_ms(1100);
  EXPECT_EQ(reader.ask("go on"), "5 of several");
}

// The new entry has the same position, key and size. Fails if the reader does not check the entry's stamp.
TEST_F(InterleaveRead, a_copy_does_not_count_if_the_entry_was_freed_and_recreated_at_the_same_position) {
  Started reader("stored", [](Channel& parent) {
    if (dict().set("large", std::string(kLarge, 'o')) != HOLDFAST_OK) return 1;
    pause_at("read.copied", parent);
    return read_in_two_steps("large", parent);
  });
  ASSERT_EQ(reader.ask("read"), "at read.found");
  Started writer("0", [](Channel& parent) {
    const auto block = [] {
      Position position{};
      Segment& segment = dict().segment();
      segment.shards()[0].find(Key("large", segment.seed()), position);
      return position.block;
    };
    const std::uint32_t before = block();
    int code = dict().remove("large");
    for (int i = 0; i < 15; ++i) code |= dict().set("wrong-" + std::to_string(i), std::string(2000, 'w'));
    parent.say(std::to_string(code));
    parent.hear();
    for (int i = 0; i < 15; ++i) code |= dict().remove("wrong-" + std::to_string(i));
    code |= dict().set("large", std::string(kLarge, 'n'));
    parent.say(code == HOLDFAST_OK && block() == before ? "in the same position" : "elsewhere");
    return 0;
  });
  ASSERT_EQ(reader.ask("go on"), "at read.copied");
  ASSERT_EQ(writer.ask("go on"), "in the same position");
  EXPECT_EQ(reader.ask("go on"), "20000 n");
}

// Fails if a repair clears the link of an entry that it cuts off, because a reader at this entry would not find the
// entries behind it.
TEST_F(InterleaveRead, entries_that_a_repair_cuts_off_keep_their_links_until_readers_are_warned) {
  Child child([](Channel& parent) {
    Segment& segment = dict().segment();
    Shard& shard = segment.shards()[0];
    const auto key_of = [&](const std::string& name) { return Key(name, segment.seed()); };
    if (dict().push("list", 1, "element") != 1) return 1;
    std::string behind;  // in the list's chain
    for (int i = 0; behind.empty(); ++i)
      if (const std::string name = "key-" + std::to_string(i);
          &shard.bucket_of(key_of(name).short_hash()) == &shard.bucket_of(key_of("list").short_hash()))
        behind = name;
    if (dict().set(behind, "value") != HOLDFAST_OK) return 1;
    Position list{};
    Position other{};
    if (!shard.find(key_of("list"), list) || !shard.find(key_of(behind), other)) return 1;
    list.view.list().word.store(ListEnds{5, 5, 1}.word());  // no node is at these positions
    at_failpoint("repair.cut",
                 [&] { parent.say(list.view.entry->next.load() == other.block ? "leads on" : "leads nowhere"); });
    if (dict().pop("list", 0) != nothing()) return 1;
    parent.say(dict().get(behind) == text("value") ? "kept" : "lost");
    return 0;
  });
  EXPECT_EQ(child.hear(), "leads on");
  EXPECT_EQ(child.hear(), "kept");
}

}  // namespace
}  // namespace holdfast::test
