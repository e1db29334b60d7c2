// Tests the parts of the C ABI that do not operate on a dictionary's content: versions, texts, opening, bad arguments,
// and the life of a world. This program never enters a world itself, so each child begins a new world.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/dict.h"
#include "support/refused_call.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

bool error_has(const std::string& text) {
  const std::string error = holdfast_error();
  EXPECT_NE(error.find(text), std::string::npos) << "\"" << text << "\" is not in \"" << error << "\"";
  return error.find(text) != std::string::npos;
}

int attach(const std::string& name, holdfast_dict** dict) { return holdfast_attach(name.data(), name.size(), dict); }
int remove(const std::string& name) { return holdfast_remove(name.data(), name.size()); }

TEST(capi, the_library_reports_its_version) {
  EXPECT_EQ(holdfast_abi(), static_cast<std::uint32_t>(HOLDFAST_ABI));
  EXPECT_STRNE(holdfast_version(), "");
  EXPECT_STREQ(holdfast_error(), "");
  const double before = holdfast_now();
  EXPECT_GE(holdfast_now(), before);
}

TEST(capi, every_code_has_a_text) {
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_OK), "ok");
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_NOT_FOUND), "not found");
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_EXISTS), "exists");
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_NO_MEMORY), "no memory");
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_TIMEOUT), "timeout");
  for (int code = HOLDFAST_OK; code <= HOLDFAST_UNCHANGED; ++code)
    EXPECT_STRNE(holdfast_code_text(code), "unknown code");
  EXPECT_STREQ(holdfast_code_text(HOLDFAST_UNCHANGED + 1), "unknown code");
  EXPECT_STREQ(holdfast_code_text(-1), "unknown code");
}

TEST(capi, an_empty_lease_is_all_zeros) {
  in_a_world([] {
    Dict dict("a");
    holdfast_lease held{};
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
    ASSERT_EQ(dict.set("value", "v"), HOLDFAST_OK);
    const auto is_empty = [](const holdfast_lease& lease) { return lease.owner == 0 && lease.sequence == 0; };
    for (const char* key : {"k", "value"}) {
      holdfast_lease other{7, 7};
      EXPECT_EQ(dict.try_lock(key, 0, &other), HOLDFAST_LOCKED);
      EXPECT_TRUE(is_empty(other)) << key;
    }
    holdfast_lease stranger{held.owner, held.sequence + 1};
    EXPECT_EQ(dict.unlock("k", &stranger), HOLDFAST_NOT_OWNER);
    EXPECT_TRUE(is_empty(stranger));
    EXPECT_EQ(dict.unlock("k", &held), HOLDFAST_OK);
    EXPECT_TRUE(is_empty(held));
    EXPECT_EQ(dict.unlock("k", &held), HOLDFAST_NOT_OWNER);
    holdfast_holder holder{};
    holder.pid = 7;
    EXPECT_EQ(dict.holder("k", &holder), HOLDFAST_NOT_FOUND);
    EXPECT_EQ(holder.pid, 0U);
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
    ASSERT_EQ(remove("a"), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("k", &held), HOLDFAST_REMOVED);
    EXPECT_TRUE(is_empty(held));
  });
}

TEST(capi, a_change_under_a_file_mutex_without_descriptors_fails_with_the_reason) {
  in_a_world([] {
    Dict dict("a", {.mutex = HOLDFAST_MUTEX_FILE});
    EXPECT_EQ(dict.set("k", "before"), HOLDFAST_OK);
    {
      const NoDescriptors none;
      holdfast_lease lease{};
      EXPECT_EQ(dict.set("k", "after"), HOLDFAST_SYSTEM);
      EXPECT_TRUE(error_has("no descriptor is left"));
      EXPECT_EQ(dict.try_lock("l", 0, &lease), HOLDFAST_SYSTEM);
      EXPECT_EQ(dict.get("k"), text("before"));
    }
    EXPECT_EQ(dict.set("k", "after"), HOLDFAST_OK);
  });
}

TEST(capi, sizes_are_parsed) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(holdfast_parse_size("64m", 3, &bytes), HOLDFAST_OK);
  EXPECT_EQ(bytes, 64U << 20);
  EXPECT_EQ(holdfast_parse_size("64mb", 4, &bytes), HOLDFAST_INVALID);
  EXPECT_TRUE(error_has("64mb"));
}

TEST(capi, a_null_name_is_refused_with_a_message) {
  holdfast_dict* dict = nullptr;
  const holdfast_options options{};
  EXPECT_EQ(holdfast_open(nullptr, 5, &options, &dict), HOLDFAST_INVALID);
  EXPECT_TRUE(error_has("bad dictionary name: expected 1 to 250 bytes, got a null pointer"));
  EXPECT_EQ(holdfast_attach(nullptr, 5, &dict), HOLDFAST_INVALID);
  EXPECT_EQ(holdfast_remove(nullptr, 5), HOLDFAST_INVALID);
}

TEST(capi, the_directory_comes_from_the_environment) {
  const ScratchDirectory directory;
  in_process([&] { EXPECT_EQ(holdfast_directory(), directory.path()); });
}

TEST(capi, every_call_explains_an_unusable_directory_and_works_once_it_is_usable) {
  const ScratchDirectory directory;
  in_process([&] {
    ::setenv("HOLDFAST_DIR", (directory.path() + "/not/there").c_str(), 1);
    EXPECT_EQ(holdfast_directory(), nullptr);
    EXPECT_TRUE(error_has("not/there"));
    EXPECT_NE(Dict("a").status, HOLDFAST_OK);
    EXPECT_TRUE(error_has("not/there"));
    EXPECT_EQ(holdfast_parker_new(), nullptr);
    EXPECT_NE(remove("a"), HOLDFAST_OK);
    ::setenv("HOLDFAST_DIR", directory.path().c_str(), 1);
    EXPECT_EQ(Dict("a").status, HOLDFAST_OK) << "the earlier failure was remembered";
  });
}

// The command `holdfast lock` may run before the programs with which it shares the dictionary.
TEST(capi, a_default_size_does_not_conflict_with_other_sizes) {
  constexpr std::uint64_t kDefault = std::uint64_t{8} << 20;
  in_a_world([=] {
    const Dict made("a", {.size = 0});
    ASSERT_EQ(made.status, HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(holdfast_capacity(made.handle), kDefault);
    EXPECT_EQ(Dict("a", {.size = 1 << 20}).status, HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(Dict("a", {.size = 0}).status, HOLDFAST_OK) << holdfast_error();
    in_process([=] {
      EXPECT_EQ(Dict("a", {.size = HOLDFAST_SIZE_MIN}).status, HOLDFAST_OK)
          << "a process that asks for a smaller size was refused";
      EXPECT_EQ(Dict("a", {.size = kDefault}).status, HOLDFAST_OK);
    });
    EXPECT_EQ(Dict("a", {.size = kDefault + 1}).status, HOLDFAST_MISMATCH)
        << "the dictionary is smaller than requested";
    EXPECT_EQ(Dict("a", {.size = 0, .mutex = HOLDFAST_MUTEX_SPIN}).status, HOLDFAST_MISMATCH);
    EXPECT_TRUE(
        error_has("exists with size 8388608 and mutex futex, but the caller requested mutex spin; open it with the "
                  "same options"));
  });
}

TEST(capi, callers_without_a_size_accept_any_size_and_callers_with_a_size_must_agree) {
  in_a_world([] {
    const Dict made("a", {.size = 1 << 20});
    const Dict taken("a", {.size = 0});
    ASSERT_EQ(taken.status, HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(holdfast_capacity(taken.handle), std::uint64_t{1} << 20);
    EXPECT_EQ(Dict("a", {.size = 1 << 19}).status, HOLDFAST_MISMATCH);
    EXPECT_EQ(Dict("a", {.size = (1 << 20) - 1}).status, HOLDFAST_OK) << "sizes are rounded up to whole pages";
    ::setenv("HOLDFAST_DICTS", "declared=2m", 1);
    const Dict declared("declared", {.size = 0});
    ASSERT_EQ(declared.status, HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(holdfast_capacity(declared.handle), std::uint64_t{2} << 20);
    EXPECT_EQ(Dict("declared", {.size = 1 << 20}).status, HOLDFAST_MISMATCH)
        << "the declaration requests a different size";
    ::unsetenv("HOLDFAST_DICTS");
  });
}

TEST(capi, bad_options_are_refused_and_create_nothing) {
  in_a_world([] {
    EXPECT_EQ(Dict("a", {.size = 1}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.size = HOLDFAST_SIZE_MIN - 1}).status, HOLDFAST_INVALID);
    EXPECT_TRUE(error_has("12288"));
    EXPECT_EQ(Dict("a", {.size = ~0ULL}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.size = (std::uint64_t{1} << 40) + 1}).status, HOLDFAST_INVALID);
    EXPECT_TRUE(error_has("1024g"));
    EXPECT_EQ(Dict("a", {.mutex = 3}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.mutex = -1}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.mode = 0777}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.mode = 0400}).status, HOLDFAST_INVALID);
    EXPECT_EQ(Dict("a", {.size = std::uint64_t{1} << 40}).status, HOLDFAST_NO_MEMORY) << holdfast_error();
    EXPECT_TRUE(error_has("free"));
    holdfast_dict* dict = nullptr;
    EXPECT_EQ(attach("a", &dict), HOLDFAST_NOT_FOUND);
    EXPECT_EQ(Dict("a", {.size = HOLDFAST_SIZE_MIN, .mode = 0600}).status, HOLDFAST_OK) << holdfast_error();
  });
}

TEST(capi, attach_finds_open_existing_and_declared_dictionaries) {
  in_a_world([] {
    holdfast_dict* dict = nullptr;
    EXPECT_EQ(attach("later", &dict), HOLDFAST_NOT_FOUND);
    Resident creator([] { EXPECT_EQ(Dict("existing", {.size = 131072}).set("k", "v"), HOLDFAST_OK); });
    ::setenv("HOLDFAST_DICTS", "declared=64k,existing=1m", 1);
    EXPECT_EQ(attach("existing", &dict), HOLDFAST_OK);
    EXPECT_EQ(holdfast_capacity(dict), 131072U) << "the creator's size counts, not the declared size";
    EXPECT_EQ(attach("declared", &dict), HOLDFAST_OK);
    EXPECT_EQ(holdfast_capacity(dict), 65536U);
    holdfast_dict* again = nullptr;
    EXPECT_EQ(attach("declared", &again), HOLDFAST_OK);
    EXPECT_EQ(again, dict);
    ::setenv("HOLDFAST_DICTS", "broken", 1);
    EXPECT_EQ(attach("another", &dict), HOLDFAST_INVALID);
    EXPECT_TRUE(error_has("HOLDFAST_DICTS"));
    ::setenv("HOLDFAST_DICTS", "small=1k", 1);
    EXPECT_EQ(attach("small", &dict), HOLDFAST_INVALID);
    ::unsetenv("HOLDFAST_DICTS");
    EXPECT_EQ(attach("another", &dict), HOLDFAST_NOT_FOUND);
  });
}

TEST(capi, invalid_keys_and_types_are_refused) {
  in_a_world([] {
    Dict dict("a");
    holdfast_value value{};
    holdfast_lease lease{};
    double number = 0;
    EXPECT_EQ(holdfast_get(dict.handle, nullptr, 0, &value), HOLDFAST_INVALID);
    EXPECT_TRUE(error_has("nil key"));
    EXPECT_EQ(holdfast_get(dict.handle, "", 0, &value), HOLDFAST_INVALID);
    EXPECT_TRUE(error_has("empty key"));
    EXPECT_EQ(dict.remove(""), HOLDFAST_INVALID);
    EXPECT_EQ(dict.incr("", 1, &number), HOLDFAST_INVALID);
    EXPECT_EQ(dict.expire("", 1), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_ttl(dict.handle, "", 0, &number), HOLDFAST_INVALID);
    EXPECT_EQ(dict.try_lock("", 0, &lease), HOLDFAST_INVALID);
    EXPECT_EQ(dict.unlock("", &lease), HOLDFAST_INVALID);
    EXPECT_EQ(dict.renew("", lease, 0), HOLDFAST_INVALID);
    EXPECT_EQ(dict.try_lock("k", -1, &lease), HOLDFAST_INVALID);
    EXPECT_EQ(dict.renew("k", lease, std::nan("")), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_store(dict.handle, 5, "k", 1, HOLDFAST_NUMBER, nullptr, 0, 1, 0, 0, nullptr), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_SET, "k", 1, 2, nullptr, 0, 1, 0, 0, nullptr), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_ADD, "k", 1, HOLDFAST_NIL, nullptr, 0, 1, 0, 0, nullptr),
              HOLDFAST_INVALID);
    int forcible = 1;
    EXPECT_EQ(holdfast_store(dict.handle, HOLDFAST_SET, "k", 1, HOLDFAST_NUMBER, nullptr, 0, 1, 0, 0, &forcible),
              HOLDFAST_OK);
    EXPECT_EQ(forcible, 0);
    EXPECT_EQ(dict.keys().size(), 1U);
  });
}

TEST(capi, invalid_waiters_are_refused) {
  in_a_world([] {
    Dict dict("a");
    holdfast_parker* parker = holdfast_parker_new();
    ASSERT_NE(parker, nullptr);
    holdfast_lease lease{};
    double sleep = 0;
    const std::uint32_t waiter = holdfast_waiter_open(parker);
    EXPECT_NE(waiter, 0U);
    for (const std::uint32_t bad : {0U, waiter + 1, ~0U}) {
      EXPECT_EQ(dict.wait_lock("k", 0, parker, bad, &lease, &sleep), HOLDFAST_INVALID);
      EXPECT_TRUE(error_has("waiter"));
      holdfast_waiter_close(parker, bad);
      EXPECT_EQ(dict.leave("k", parker, bad), HOLDFAST_OK);
    }
    holdfast_waiter_close(parker, waiter);
    EXPECT_EQ(dict.wait_lock("k", 0, parker, waiter, &lease, &sleep), HOLDFAST_INVALID) << "closed";
    EXPECT_EQ(dict.get("k"), nothing());

    std::uint32_t woken = 0;
    EXPECT_EQ(holdfast_parker_sleep(parker, 0, &woken, 1), 0) << "a time of 0 must not sleep";
    EXPECT_EQ(holdfast_parker_sleep(parker, std::nan(""), &woken, 1), -1);
    EXPECT_EQ(holdfast_parker_sleep(parker, 1, &woken, 0), -1);
    const double before = holdfast_now();
    EXPECT_EQ(holdfast_parker_sleep(parker, 0.02, &woken, 1), 0);
    EXPECT_GE(holdfast_now() - before, 0.02);
    holdfast_parker_free(parker);
    holdfast_parker_free(nullptr);
  });
}

// --- the life of a world ---

TEST(capi, a_child_forked_before_its_parent_died_continues_with_the_same_dictionary) {
  const ScratchDirectory world;
  Child parent([](Channel& channel) {
    Dict dict("a");
    dict.set("k", "v");
    if (::fork() == 0) {
      channel.hear();  // returns when the parent is gone
      channel.say(dict.get("k").text + " " + std::to_string(dict.set("l", "w")));
      ::_exit(0);
    }
    return 0;
  });
  EXPECT_EQ(parent.wait(), 0);
  parent.say("go");
  EXPECT_EQ(parent.hear(), "v 0");
}

}  // namespace
}  // namespace holdfast::test
