// Tests memory that is reserved on first use: when a large dictionary takes memory from the file system, how much it
// takes, and what happens if the file system is full or marks are overwritten.
#include "dict/reserved.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>

#include "platform/platform.h"
#include "support/clock.h"
#include "support/dict.h"
#include "support/small_world.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kLarge = 8U << 20;
constexpr int kShards = 8;

std::string key(int i) { return "key " + std::to_string(i); }

void fill(Dict& dict, int count) {
  for (int i = 0; i < count; ++i) ASSERT_EQ(dict.set(key(i), std::string(100, 'v')), HOLDFAST_OK) << holdfast_error();
}
/// Returns how many of these keys exist.
int found(Dict& dict, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += dict.get(key(i)) == text(std::string(100, 'v')) ? 1 : 0;
  return found;
}

Shard& shard_of(Dict& dict, const std::string& name) {
  return dict.segment().shard_of(Key(name, dict.segment().seed()).hash);
}

void with_large(const std::function<void(Dict&)>& body) {
  in_a_world([&body] {
    Dict dict("d", {.size = kLarge});
    body(dict);
  });
}

// --- marks and steps ---

TEST(Reserved, a_mark_can_be_decoded_and_few_other_words_look_like_marks) {
  constexpr std::uint32_t kAll = 62111;
  for (std::uint32_t granules = 256; granules < kAll; granules += 256)
    ASSERT_EQ(ReservedMark::granules_of(ReservedMark::of(granules, kAll), kAll), granules);
  EXPECT_EQ(ReservedMark::granules_of(ReservedMark::of(kAll, kAll), kAll), kAll) << "the last unit may be incomplete";
  for (const std::uint32_t word : {0U, 1U, 2U, 4U, 0x80000000U, 0xFFFFFFFFU, 0x01010101U, 0xDEADBEEFU})
    EXPECT_EQ(ReservedMark::granules_of(word, kAll), 0U) << word;
  int marks = 0;
  for (std::uint32_t word = 1; word < 4000000000U; word += 1009) marks += ReservedMark::granules_of(word, kAll) != 0;
  EXPECT_LT(marks, 100) << "too many of four million words look like marks";
}

TEST(Reserved, an_arena_first_doubles_then_grows_in_steps_and_never_beyond_its_end) {
  constexpr std::uint32_t kUnit = ReservedMark::kGranulesPerPage;
  EXPECT_EQ(next_reserved(4 * kUnit, 1, 60000), 8 * kUnit);
  EXPECT_EQ(next_reserved(64 * kUnit, 1, 60000), 96 * kUnit);
  EXPECT_EQ(next_reserved(4 * kUnit, 30 * kUnit + 1, 60000), 35 * kUnit);
  EXPECT_EQ(next_reserved(59904, 1, 60000), 60000U);
  EXPECT_EQ(next_reserved(4 * kUnit, 0xFFFFFFFFU, 60000), 60000U);
}

TEST(Reserved, a_large_arena_grows_in_larger_units_which_its_mark_counts) {
  constexpr std::uint32_t kAll = (1U << 30) - 123'457;
  constexpr std::uint32_t kUnit = ReservedMark::unit(kAll);
  for (std::uint32_t granules = kUnit; granules < kAll; granules += kUnit)
    ASSERT_EQ(ReservedMark::granules_of(ReservedMark::of(granules, kAll), kAll), granules);
  EXPECT_EQ(ReservedMark::granules_of(ReservedMark::of(kAll, kAll), kAll), kAll);
  EXPECT_EQ(first_reserved(kAll), kUnit);
  EXPECT_EQ(next_reserved(kUnit, 1, kAll), 2 * kUnit);
  EXPECT_EQ(next_reserved(kUnit, 5 * kUnit + 1, kAll), 7 * kUnit);
  EXPECT_EQ(next_reserved(kAll - 1, 0xFFFFFFFFU, kAll), kAll);
}

// --- what is reserved ---

TEST(Reserved, a_gigabyte_dictionary_starts_with_few_pages_and_reads_reserve_no_more) {
  in_a_world([] {
    Dict dict("d", {.size = std::uint64_t{1} << 30});
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    const std::uint64_t at_first = bytes_taken();
    EXPECT_LE(at_first, 8U * 4096);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(dict.get(key(i)), nothing());
      EXPECT_EQ(dict.ttl(key(i)), Dict::kNoKey);
      EXPECT_EQ(dict.remove(key(i)), HOLDFAST_OK);
      EXPECT_EQ(dict.expire(key(i), 1), HOLDFAST_NOT_FOUND);
      EXPECT_EQ(dict.llen(key(i)), 0);
      EXPECT_EQ(dict.pop(key(i), HOLDFAST_LEFT), nothing());
    }
    EXPECT_TRUE(dict.keys().empty());
    EXPECT_TRUE(dict.scan_all(10).empty());
    EXPECT_EQ(dict.flush_expired(), 0);
    EXPECT_EQ(dict.flush_all(), HOLDFAST_OK);
    EXPECT_EQ(dict.stats().entries, 0U);
    EXPECT_EQ(holdfast_capacity(dict.handle), std::uint64_t{1} << 30);
    EXPECT_GT(dict.free_space(), std::uint64_t{9} << 26) << "the result must include all memory that can be allocated";
    EXPECT_EQ(bytes_taken(), at_first);
  });
}

TEST(Reserved, memory_is_reserved_on_use_and_stays_reserved) {
  with_large([](Dict& dict) {
    const std::uint64_t free = dict.free_space();
    dict.set("one", "key");
    const std::uint64_t of_one = bytes_taken();
    EXPECT_LE(of_one, 160U << 10) << "most of the shard's arena is not reserved";
    EXPECT_LE(dict.free_space(), free - kGranule);
    EXPECT_GE(dict.free_space(), free - 4096)
        << "the result must include all memory that can be allocated, reserved or not";
    for (const int count : {2000, 10000, 20000}) {
      fill(dict, count);
      EXPECT_GE(bytes_taken(), of_one + static_cast<std::uint64_t>(count) * 144);
      EXPECT_LE(bytes_taken(), kShards * (200U << 10) + static_cast<std::uint64_t>(count) * 320);
    }
    const std::uint64_t before = bytes_taken();
    dict.flush_all();
    dict.flush_expired();
    EXPECT_EQ(bytes_taken(), before);
    EXPECT_EQ(dict.free_space(), free);
    const holdfast_stats stats = dict.stats();
    EXPECT_EQ(stats.repairs, 0U);
    EXPECT_EQ(stats.evictions, 0U);
  });
}

TEST(Reserved, all_memory_can_be_used_before_a_key_is_evicted) {
  with_large([](Dict& dict) {
    int forcible = 0;
    int count = 0;
    const std::string value(1000, 'v');
    for (; forcible == 0; ++count) {
      const std::string name = key(count);
      ASSERT_EQ(holdfast_store(dict.handle, HOLDFAST_SET, name.data(), name.size(), HOLDFAST_STRING, value.data(),
                               value.size(), 0, 0, 0, &forcible),
                HOLDFAST_OK);
    }
    EXPECT_GT(count, 6000) << "expected about 7,500, because the count ends at the first full shard";
    for (int i = 0; i < 8000; ++i) dict.set(key(i), value);
    EXPECT_GE(bytes_taken(), kLarge - (64U << 10));
    EXPECT_EQ(dict.set("large", std::string(700 << 10, 'l')), HOLDFAST_OK);
    EXPECT_EQ(dict.stats().repairs, 0U);
  });
}

TEST(Reserved, a_value_as_large_as_a_shard_fits_into_a_new_dictionary) {
  with_large([](Dict& dict) {
    const std::string large(static_cast<std::size_t>(dict.dictionary().room_for_one()) - 16, 'l');
    EXPECT_EQ(dict.set("large", large), HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(dict.get("large").text.size(), large.size());
    EXPECT_EQ(dict.remove("large"),
              HOLDFAST_OK);  // the list may be in the same shard, and a push does not evict entries
    EXPECT_GT(dict.push("list", HOLDFAST_LEFT, std::string(300 << 10, 'l')), 0);
  });
}

TEST(Reserved, expired_values_are_reclaimed_before_more_memory_is_reserved) {
  with_large([](Dict& dict) {
    dict.set("one", "key");
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 500; ++i) dict.set(key(round * 500 + i), std::string(100, 'v'), 0.001);
      sleep_ms(10);
    }
    EXPECT_LE(bytes_taken(), kShards * (160U << 10)) << "memory was reserved for all ten thousand values";
  });
}

TEST(Reserved, a_dictionary_of_one_shard_is_reserved_completely) {
  in_a_world([] {
    const Dict dict("d", {.size = 1 << 20});
    EXPECT_GE(bytes_taken(), 1U << 20);
  });
}

// --- other processes ---

TEST(Reserved, a_process_notices_that_another_one_has_grown_an_arena) {
  const ScratchDirectory directory;
  const auto early_process = [](Channel& parent) {
    Dict dict("d", {.size = kLarge});
    fill(dict, 50);
    parent.say("ready");
    for (std::string line = parent.hear(); line != "(end)"; line = parent.hear()) {
      if (line == "read") parent.say(std::to_string(found(dict, 20000)));
      if (line == "keys") parent.say(std::to_string(dict.keys().size()));
      if (line == "audit") parent.say(std::to_string(dict.flush_expired()));
      if (line == "write") {
        fill(dict, 20000);
        parent.say("written");
      }
      if (line == "repairs") parent.say(std::to_string(dict.stats().repairs));
    }
    return 0;
  };
  Started early("ready", early_process);
  Started writer("ready", early_process);
  in_process([] {
    Dict dict("d", {.size = kLarge});
    fill(dict, 20000);
    EXPECT_EQ(dict.stats().evictions, 0U);
  });
  EXPECT_EQ(writer.ask("write"), "written");
  EXPECT_EQ(writer.ask("repairs"), "0") << "growth that the process did not know about was treated as damage";
  EXPECT_EQ(early.ask("read"), "20000");
  EXPECT_EQ(early.ask("keys"), "20000");
  EXPECT_EQ(early.ask("audit"), "0");
  EXPECT_EQ(early.ask("write"), "written");
  EXPECT_EQ(early.ask("repairs"), "0");
}

TEST(Reserved, a_persistent_dictionary_enters_a_new_world_with_all_its_arenas) {
  const ScratchDirectory directory;
  in_process([] {
    Dict dict("d", {.size = kLarge, .persist = true});
    fill(dict, 10000);
  });
  const std::uint64_t before = bytes_taken();
  ::unlink((directory / "processes").c_str());
  in_process([] {
    Dict dict("d", {.size = kLarge, .persist = true});
    EXPECT_EQ(found(dict, 10000), 10000);
    EXPECT_EQ(dict.flush_expired(), 0);
  });
  EXPECT_LE(bytes_taken(), before + 4096);
}

// --- a full file system ---

class FullReserved : public InSmallWorld {
 protected:
  static constexpr Options kOptions{.size = 5U << 20};

  static void with_a_dictionary(const std::function<void(Dict&)>& body) {
    in_a_small_world([&body] {
      Dict dict("d", kOptions);
      ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
      body(dict);
    });
  }
};

TEST_F(FullReserved, without_memory_for_an_unused_shard_all_calls_return) {
  with_a_dictionary([](Dict& dict) {
    fill_it();
    holdfast_lease lease{};
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(dict.set(key(i), "v"), HOLDFAST_NO_MEMORY);
      EXPECT_EQ(dict.try_lock(key(i), 0, &lease), HOLDFAST_NO_MEMORY);
      EXPECT_EQ(dict.push(key(i), HOLDFAST_LEFT, "v"), -HOLDFAST_NO_MEMORY);
      EXPECT_EQ(dict.get(key(i)), nothing());
      EXPECT_EQ(dict.remove(key(i)), HOLDFAST_OK);
    }
    EXPECT_TRUE(dict.keys().empty());
    EXPECT_EQ(dict.flush_expired(), 0);
    empty_it();
    fill(dict, 1000);
    EXPECT_EQ(found(dict, 1000), 1000);
  });
}

TEST_F(FullReserved, an_arena_that_cannot_grow_continues_with_its_memory) {
  with_a_dictionary([](Dict& dict) {
    fill(dict, 200);
    fill_it();
    const std::string value(100, 'v');
    for (int i = 0; i < 5000; ++i)
      ASSERT_EQ(dict.set(key(i), value), HOLDFAST_OK) << "older values must be evicted to make room";
    EXPECT_GT(dict.stats().evictions, 1000U);
    EXPECT_EQ(dict.get(key(4999)), text(value));
    int stored = 0;
    while (dict.store(HOLDFAST_SAFE_SET, "safe " + std::to_string(stored), value, 0, 0) == HOLDFAST_OK) ++stored;
    EXPECT_LT(stored, 5000);
    EXPECT_EQ(dict.set("large", std::string(500 << 10, 'l')), HOLDFAST_NO_MEMORY);
    in_process([&] {
      Dict other("d", kOptions);
      EXPECT_EQ(other.get(key(4999)), text(value));
      EXPECT_EQ(other.set(key(5000), value), HOLDFAST_OK);
    });
    EXPECT_EQ(dict.get(key(5000)), text(value));
    empty_it();
    EXPECT_EQ(dict.set("large", std::string(500 << 10, 'l')), HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(dict.flush_expired(), 0);
    EXPECT_EQ(dict.stats().repairs, 0U);
  });
}

TEST_F(FullReserved, marks_that_promise_too_much_memory_are_not_trusted) {
  with_a_dictionary([](Dict& dict) {
    fill(dict, 400);
    fill_it();
    for (Shard& shard : dict.segment().shards())
      shard.header().reserved().store(ReservedMark::of(shard.all_granules(), shard.all_granules()), kRelaxed);
    in_process([] {
      Dict other("d", kOptions);
      EXPECT_EQ(found(other, 400), 400);
      EXPECT_EQ(other.set(key(0), std::string(100, 'v')), HOLDFAST_OK);
      EXPECT_EQ(other.flush_expired(), 0);
      EXPECT_GE(found(other, 400), 399) << "one value may have been evicted";
    });
    EXPECT_GE(found(dict, 400), 399);
    fill(dict, 400);
    EXPECT_EQ(dict.flush_expired(), 0);
  });
}

TEST_F(FullReserved, shard_bytes_that_promise_too_much_memory_are_not_trusted) {
  with_a_dictionary([](Dict& dict) {
    fill_it();
    for (std::uint32_t i = 0; i < dict.segment().geometry().shards; ++i)
      reinterpret_cast<Word8*>(&dict.segment().header())[kHeaderBytes + i].store(0xFF, kRelaxed);
    EXPECT_EQ(found(dict, 100), 0);
    EXPECT_TRUE(dict.keys().empty());
    EXPECT_EQ(dict.set(key(0), "v"), HOLDFAST_NO_MEMORY);
    empty_it();
    fill(dict, 100);
    EXPECT_EQ(found(dict, 100), 100);
  });
}

// Acts like a worker of a server that root starts. The kernel reports every page as present to such a process.
TEST_F(FullReserved, a_process_that_dropped_its_rights_touches_no_missing_page) {
  with_a_dictionary([](Dict& dict) {
    fill_it();
    Child worker([&](Channel&) {
      holdfast_lease lease{};
      EXPECT_EQ(dict.try_lock("key", 0, &lease), HOLDFAST_NO_MEMORY)
          << "the process must be in the world, but without memory for a lock";
      if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0)
        return 0;  // this user is not root
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(dict.try_lock(key(i), 0, &lease), HOLDFAST_NO_MEMORY);
        EXPECT_EQ(dict.set(key(i), "v"), HOLDFAST_NO_MEMORY);
      }
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(worker.wait(), 0) << "status 135 means SIGBUS";
  });
}

// --- damage ---

TEST(Reserved, an_overwritten_mark_does_no_harm) {
  with_large([](Dict& dict) {
    fill(dict, 20000);
    const std::uint32_t right = shard_of(dict, key(0)).header().reserved().load(kRelaxed);
    ASSERT_GT(ReservedMark::granules_of(right, shard_of(dict, key(0)).all_granules()), kFirstGranules);
    for (const std::uint32_t word : {0U, 1U, ~0U, 0xDEADBEEFU, right + 1, right ^ 0x80000000U}) {
      const auto overwrite = [&] {
        for (Shard& shard : dict.segment().shards()) shard.header().reserved().store(word, kRelaxed);
      };
      overwrite();
      in_process([] {
        Dict newcomer("d", {.size = kLarge});
        fill(newcomer, 1);
        EXPECT_EQ(found(newcomer, 20000), 20000);
        EXPECT_EQ(newcomer.flush_expired(), 0);
        EXPECT_EQ(found(newcomer, 20000), 20000);
      });
      overwrite();
      fill(dict, 20000);
      EXPECT_EQ(found(dict, 20000), 20000) << word;
      EXPECT_EQ(dict.flush_expired(), 0);
      EXPECT_EQ(found(dict, 20000), 20000) << word;
    }
    // Overwrites the mark with a mark for less memory than this process knows about.
    for (Shard& shard : dict.segment().shards())
      shard.header().reserved().store(ReservedMark::of(1024, shard.all_granules()), kRelaxed);
    fill(dict, 20000);
    EXPECT_EQ(found(dict, 20000), 20000);
  });
}

TEST(Reserved, an_overwritten_byte_of_a_shard_hides_it_until_its_next_change_or_until_flush_expired) {
  with_large([](Dict& dict) {
    fill(dict, 1000);
    auto* const bytes = reinterpret_cast<Word8*>(&dict.segment().header()) + kHeaderBytes;
    const auto overwrite = [&] {
      for (int i = 0; i < kShards; ++i) bytes[i].store(0, kRelaxed);
    };
    overwrite();
    EXPECT_EQ(found(dict, 1000), 1000) << "this process knows which shards are used, and must find all values";
    EXPECT_EQ(dict.flush_expired(), 0);
    in_process([] {
      Dict other("d", {.size = kLarge});
      EXPECT_EQ(found(other, 1000), 1000);
    });
    overwrite();
    in_process([] {
      Dict other("d", {.size = kLarge});
      for (int i = 1000; i < 1100; ++i) other.set(key(i), "v");
      EXPECT_EQ(found(other, 1000), 1000);
    });
  });
}

// --- the kernel ---

TEST(Reserved, pages_are_reserved_even_without_the_advice_to_populate) {
  in_a_world([] {
    const sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{sizeof program / sizeof *program, const_cast<sock_filter*>(program)};
    ASSERT_EQ(0, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    ASSERT_EQ(0, ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    Dict dict("d", {.size = kLarge});
    const std::uint64_t before = bytes_taken();
    fill(dict, 10000);
    EXPECT_EQ(found(dict, 10000), 10000);
    EXPECT_GT(bytes_taken(), before + 10000 * 100U);
    EXPECT_EQ(dict.stats().repairs, 0U);
  });
}

TEST(Reserved, reserving_pages_keeps_their_content_and_reports_a_lack_of_pages) {
  const ScratchDirectory directory;
  const platform::FileDescriptor fd(::open((directory / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(0, platform::reserve(fd.get(), 4096, 16 * 4096));
  struct stat info {};
  ASSERT_EQ(0, ::fstat(fd.get(), &info));
  EXPECT_EQ(info.st_size, 16 * 4096);
  EXPECT_EQ(info.st_blocks * 512, 4096);
  const platform::Mapping mapping = platform::map_shared(fd.get(), 16 * 4096);
  ASSERT_TRUE(mapping);
  mapping.data()[3 * 4096] = std::byte{7};
  EXPECT_EQ(0, platform::reserve_pages(mapping.data() + 2 * 4096 + 100, 3 * 4096));
  ASSERT_EQ(0, ::fstat(fd.get(), &info));
  EXPECT_EQ(info.st_blocks * 512, 5 * 4096) << "expected one page more than the four that contain these bytes";
  EXPECT_EQ(mapping.data()[3 * 4096], std::byte{7});
  ASSERT_EQ(0, ::ftruncate(fd.get(), 8 * 4096));
  EXPECT_NE(0, platform::reserve_pages(mapping.data() + 6 * 4096, 4 * 4096))
      << "a range beyond the end of the file must fail without a signal";
}

}  // namespace
}  // namespace holdfast::test
