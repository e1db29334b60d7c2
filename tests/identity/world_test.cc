// Tests which processes share a dictionary, and which processes must not. Two processes must never hold the same lock.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "identity/participant.h"
#include "support/started.h"
#include "world/process_table.h"

namespace holdfast::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

int obey_one_that_persists(Channel& parent) { return obey(parent, {.persist = true}); }
int obey_as_ever(Channel& parent) { return obey(parent); }

class IdentityWorld : public testing::Test {
 protected:
  void write_word(const std::string& name, std::size_t at, std::uint64_t word) const {
    const platform::FileDescriptor fd(::open((directory_ / name).c_str(), O_RDWR));
    ASSERT_EQ(::pwrite(fd.get(), &word, sizeof word, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof word));
  }
  std::uint64_t read_word(const std::string& name, std::size_t at) const {
    const platform::FileDescriptor fd(::open((directory_ / name).c_str(), O_RDWR));
    std::uint64_t word = 0;
    EXPECT_EQ(::pread(fd.get(), &word, sizeof word, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof word));
    return word;
  }

  const ScratchDirectory directory_;
};

TEST_F(IdentityWorld, processes_with_different_boot_ids_share_a_dictionary) {
  for (const auto body : {obey_as_ever, obey_one_that_persists}) {
    Started holder("ready", body);
    ASSERT_EQ(holder.ask("lock"), "ok");
    Child elsewhere([&](Channel& parent) {
      const std::string other_id = directory_ / "boot_id";
      const platform::FileDescriptor fd(::open(other_id.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600));
      const std::string id = "74574225-a18e-46ca-b425-96fcea6e86b4\n";
      if (::write(fd.get(), id.data(), id.size()) < 0 || ::unshare(CLONE_NEWNS) != 0 ||
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount(other_id.c_str(), "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr) != 0) {
        parent.say(std::string("skip: ") + std::strerror(errno));
        return 0;
      }
      return body(parent);
    });
    const std::string ready = elsewhere.hear();
    if (ready.starts_with("skip")) GTEST_SKIP() << ready;
    EXPECT_EQ(ready, "ready");
    expect_passed_on(holder, elsewhere);
  }
}

TEST_F(IdentityWorld, after_the_table_was_deleted_new_processes_are_refused_and_the_lock_stays_held) {
  for (const auto body : {obey_as_ever, obey_one_that_persists}) {
    Started holder("ready", body);
    ASSERT_EQ(holder.ask("lock"), "ok");
    ASSERT_EQ(::unlink((directory_ / "processes").c_str()), 0);
    expect_refused(body, "is used by processes that the file \"processes\" does not list");
    EXPECT_EQ(holder.ask("held"), "yes");
    EXPECT_EQ(holder.ask("unlock"), "ok");
    // A child from the old world that has no identity yet gets an error.
    holder.say("end");
    EXPECT_EQ(holder.wait(), 0);
    Started later("ready", body);
    EXPECT_EQ(later.ask("lock"), "ok");
  }
}

TEST_F(IdentityWorld, a_persistent_dictionary_keeps_only_the_data_of_a_past_world) {
  Started holder("ready", obey_one_that_persists);
  ASSERT_EQ(holder.ask("set"), "ok");
  ASSERT_EQ(holder.ask("lock"), "ok");
  const std::string number = holder.ask("number");
  holder.kill_and_wait();
  ASSERT_EQ(::unlink((directory_ / "processes").c_str()), 0);
  Started next("ready", obey_one_that_persists);
  EXPECT_EQ(next.ask("get"), "there");
  EXPECT_EQ(next.ask("lock"), "ok");
  EXPECT_GT(std::stoull(next.ask("number")), std::stoull(number));
}

TEST_F(IdentityWorld, a_copy_of_the_table_is_not_accepted_as_the_table) {
  Started holder("ready", obey_one_that_persists);
  ASSERT_EQ(holder.ask("lock"), "ok");
  replace_by_copy(directory_ / "processes");
  expect_refused(obey_one_that_persists, "is used by processes that the file \"processes\" does not list");
  EXPECT_EQ(holder.ask("held"), "yes");
}

TEST_F(IdentityWorld, a_recreated_dictionary_does_not_reissue_an_old_lease) {
  for (const bool persist : {false, true}) {
    Child child([persist](Channel& parent) {
      Dict first("again", {.persist = persist});
      holdfast_lease old{};
      holdfast_lease current{};
      if (first.try_lock("key", 0, &old) != HOLDFAST_OK || holdfast_remove("again", 5) != HOLDFAST_OK) return 1;
      Dict second("again", {.persist = persist});
      if (second.try_lock("key", 0, &current) != HOLDFAST_OK) return 2;
      parent.say(current.sequence > old.sequence ? "larger" : "not larger");
      parent.say(in_words(second.unlock("key", &old)));
      parent.say(second.remaining("key", current) >= 0 ? "held" : "lost");
      return 0;
    });
    EXPECT_EQ(child.hear(), "larger");
    EXPECT_EQ(child.hear(), "not owner");
    EXPECT_EQ(child.hear(), "held");
  }
}

TEST_F(IdentityWorld, an_overwritten_fencing_count_does_not_restart) {
  Started child("ready", obey_as_ever);
  std::uint64_t last = 0;
  constexpr std::size_t kInDictionary[] = {192, 200, 208, 216};  // docs/format.md
  constexpr std::size_t kInTable[] = {192, 200};
  const auto expect_larger = [&](const std::string& what) {
    ASSERT_EQ(child.ask("lock"), "ok") << what;
    const std::uint64_t number = std::stoull(child.ask("number"));
    EXPECT_GT(number, last) << what;
    EXPECT_LT(number, std::uint64_t{1} << 53) << what;
    last = number;
    ASSERT_EQ(child.ask("unlock"), "ok") << what;
  };
  expect_larger("before");
  for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, last - 1, last * 3}) {
    for (const std::size_t at : kInDictionary) {
      write_word("dict.dict", at, word);
      expect_larger("dictionary, " + std::to_string(at) + ": " + std::to_string(word));
    }
    for (const std::size_t at : kInTable) {
      write_word("processes", at, word);
      write_word("dict.dict", 192, 0);  // lets the next grant allocate a new range
      expect_larger("table, " + std::to_string(at) + ": " + std::to_string(word));
    }
  }
}

// Each number is granted for a different key, because a key's own last number would show that the count was set back.
TEST_F(IdentityWorld, a_fencing_count_that_was_set_back_a_little_gives_no_number_twice) {
  for (const std::uint64_t size : {std::uint64_t{65536}, std::uint64_t{4} << 20}) {
    Child child([&](Channel& parent) {
      Dict dict("dict", {.size = size});
      const std::uint64_t mended = dict.stats().words_mended;
      std::uint64_t last = 0;
      int grants = 0;
      for (const std::uint64_t back : {1, 2, 7, 100}) {
        for (int i = 0; i < 200; ++i) {
          holdfast_lease lease{};
          const std::string key = "key " + std::to_string(grants++);
          if (dict.try_lock(key, 0, &lease) != HOLDFAST_OK) return 1;
          if (lease.sequence <= last) parent.say("given again, after " + std::to_string(back) + " less");
          last = lease.sequence;
          if (dict.unlock(key, &lease) != HOLDFAST_OK) return 2;
        }
        write_word("dict.dict", 192, last - back);
      }
      parent.say("done");
      parent.say(std::to_string(dict.stats().words_mended - mended));
      return 0;
    });
    EXPECT_EQ(child.hear(), "done");
    EXPECT_EQ(child.hear(), "3");
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST_F(IdentityWorld, an_overwritten_generation_loses_no_lock_and_is_repaired) {
  Started holder("ready", obey_as_ever);
  ASSERT_EQ(holder.ask("lock"), "ok");
  Started other("ready", obey_as_ever);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    for (std::size_t word = 0; word < 3; ++word) {
      const std::size_t at = kHeaderBytes + slot * sizeof(ProcessSlot) + word * sizeof(std::uint64_t);
      const std::uint64_t before = read_word("processes", at);
      if (before == 0) continue;
      write_word("processes", at, before ^ 1);
      EXPECT_EQ(other.ask("lock"), "locked");
      EXPECT_EQ(holder.ask("held"), "yes");
      write_word("processes", at, before);
    }
  }
  holder.kill_and_wait();
  EXPECT_EQ(other.ask("lock"), "ok");
}

TEST_F(IdentityWorld, a_child_in_another_time_namespace_can_read_but_not_lock) {
  Started holder("ready", obey_as_ever);
  ASSERT_EQ(holder.ask("set"), "ok");
  Started outer("ok", [](Channel& parent) {
    Dict dict("dict");
    parent.say(in_words(dict.set("other", "there")));
    if (::unshare(kNewTime) != 0) {
      parent.say(std::string("skip: ") + std::strerror(errno));
      return 0;
    }
    // The child's clock is a day ahead, so every lease looks expired.
    const platform::FileDescriptor offsets(::open("/proc/self/timens_offsets", O_WRONLY));
    if (::write(offsets.get(), "monotonic 86400 0", 17) != 17) {
      parent.say(std::string("skip: ") + std::strerror(errno));
      return 0;
    }
    Child inner([&](Channel& up) {
      holdfast_lease lease{};
      up.say(dict.get("value").text);
      up.say(in_words(dict.try_lock("key", 30, &lease)));
      return 0;
    });
    parent.say(inner.hear());
    parent.say(inner.hear());
    return 0;
  });
  ASSERT_EQ(holder.ask("lock"), "ok");
  const std::string read = outer.hear();
  if (read.starts_with("skip")) GTEST_SKIP() << read;
  EXPECT_EQ(read, "there");
  EXPECT_THAT(outer.hear(), StartsWith("this process is in a different time namespace ("));
  EXPECT_EQ(holder.ask("held"), "yes");
}

TEST_F(IdentityWorld, a_child_without_a_free_slot_can_read_and_is_told_why_it_cannot_change_anything) {
  Child parent_process([this](Channel& parent) {
    Dict dict("dict");
    dict.set("value", "there");
    const platform::FileDescriptor table(::open((directory_ / "processes").c_str(), O_RDWR | O_CLOEXEC));
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) platform::try_record_lock(table.get(), kSlotLocks + slot);
    Child child([&](Channel& up) {
      up.say(dict.get("value").text);
      up.say(in_words(dict.set("value", "changed")));
      // For some time after this failure, the process does not check the table again.
      holdfast_lease lease{};
      up.say(in_words(dict.try_lock("key", 0, &lease)));
      up.say(dict.get("value").text);
      return 0;
    });
    for (int i = 0; i < 4; ++i) parent.say(child.hear());
    return 0;
  });
  EXPECT_EQ(parent_process.hear(), "there");
  EXPECT_THAT(parent_process.hear(), HasSubstr("all 1024 process slots of "));
  EXPECT_THAT(parent_process.hear(), HasSubstr("are taken; end some processes"));
  EXPECT_EQ(parent_process.hear(), "there");
}

TEST_F(IdentityWorld, a_child_can_read_while_a_stopped_process_has_the_tables_lock) {
  Child parent_process([this](Channel& parent) {
    Dict dict("dict");
    dict.set("value", "there");
    const platform::FileDescriptor table(::open((directory_ / "processes").c_str(), O_RDWR | O_CLOEXEC));
    platform::try_record_lock(table.get(), kTableLock);
    Child child([&](Channel& up) {
      // In an earlier version, each of these calls waited for 5 s.
      const double start = holdfast_now();
      int found = 0;
      for (int i = 0; i < 1000; ++i) found += dict.get("value").code == HOLDFAST_OK ? 1 : 0;
      up.say(std::to_string(found));
      up.say(holdfast_now() - start < 1000 ? "in time" : "late");
      up.say(in_words(dict.set("value", "changed")));
      return 0;
    });
    for (int i = 0; i < 3; ++i) parent.say(child.hear());
    return 0;
  });
  EXPECT_EQ(parent_process.hear(), "1000");
  EXPECT_EQ(parent_process.hear(), "in time");
  EXPECT_THAT(parent_process.hear(), HasSubstr("is that process stopped?"));
}

// Fails if all children try to get the table's lock without pauses, because the holder then hardly gets a processor.
TEST_F(IdentityWorld, hundreds_of_children_forked_together_all_enter) {
  in_process([] {
    constexpr int kChildren = 600;
    Dict dict("dict", {.size = 4 << 20});
    ASSERT_EQ(dict.status, HOLDFAST_OK);
    int go[2];
    ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kChildren; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(go[1]);
        char byte = 0;
        static_cast<void>(::read(go[0], &byte, 1));  // returns when the parent closes the pipe
        const int code = dict.set("key " + std::to_string(i), "entered");
        ::usleep(200'000);  // keeps its slot for a while
        ::_exit(code);
      }
      if (child > 0) children.push_back(child);
    }
    ::close(go[0]);
    ::close(go[1]);
    std::map<int, int> codes;
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ++codes[WIFEXITED(status) ? WEXITSTATUS(status) : -1];
    }
    EXPECT_EQ(codes, (std::map<int, int>{{HOLDFAST_OK, kChildren}}));
  });
}

// A new process with a different seed would look for the lock in the wrong bucket, and would find it free.
TEST_F(IdentityWorld, no_new_process_can_open_a_dictionary_with_an_overwritten_seed) {
  Started holder("ready", obey_as_ever);
  ASSERT_EQ(holder.ask("lock"), "ok");
  constexpr std::size_t kSeedOffset = 120;
  write_word("dict.dict", kSeedOffset, read_word("dict.dict", kSeedOffset) + 1);
  expect_refused(obey_as_ever, "bad hash seed");
  EXPECT_EQ(holder.ask("held"), "yes");
}

TEST_F(IdentityWorld, a_removal_that_cannot_succeed_changes_nothing) {
  Started user("ok", [&](Channel& parent) {
    constexpr uid_t kNobody = 65534;  // because root may write anywhere
    if (::geteuid() == 0 && (::chown(directory_.path().c_str(), kNobody, kNobody) != 0 || ::setuid(kNobody) != 0))
      return 1;
    Dict dict("dict");
    parent.say(in_words(dict.set("value", "there")));
    if (::chmod(directory_.path().c_str(), 0500) != 0) return 1;
    parent.say(in_words(holdfast_remove("dict", 4)));
    parent.say(dict.get("value").text);
    ::chmod(directory_.path().c_str(), 0700);
    return 0;
  });
  EXPECT_THAT(user.hear(), HasSubstr("cannot remove"));
  EXPECT_EQ(user.hear(), "there");
}

}  // namespace
}  // namespace holdfast::test
