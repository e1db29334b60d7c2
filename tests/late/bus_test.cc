// Tests files that other processes truncate or overwrite while they are in use. With the guard, users see the
// dictionary as removed, and faults in the host's own memory still reach the host. Without the guard, the process ends,
// as include/holdfast.h states.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/event_loop.h"
#include "support/others.h"
#include "support/small_world.h"

namespace holdfast::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSize = 1 << 20;
constexpr int kBusError = 128 + SIGBUS;

std::string path_of(const std::string& file) { return std::string(holdfast_directory()) + "/" + file; }

void truncate_to(const char* file, std::uint64_t size) {
  EXPECT_EQ(::truncate(path_of(file).c_str(), static_cast<off_t>(size)), 0);
}

/// A host's dictionary, usually "d".
struct InUse {
  explicit InUse(const std::string& name = "d") : dict(name, {.size = kSize}) { EXPECT_EQ(use_all(), HOLDFAST_OK); }

  /// Touches all of the dictionary's memory by storing more values than fit. Returns the code of the last change.
  int use_all() {
    const std::string value(400, 'v');
    int code = HOLDFAST_OK;
    for (int i = 0; i < 3000; ++i) {
      code = dict.set("key" + std::to_string(i), value);
      dict.get("key" + std::to_string(i));
    }
    return code;
  }
  int lock(const char* key) {
    holdfast_lease lease{};
    return dict.try_lock(key, 0, &lease);
  }
  void expect_removed() {
    EXPECT_EQ(use_all(), HOLDFAST_REMOVED);
    EXPECT_THAT(holdfast_error(), HasSubstr("cut short"));
    EXPECT_EQ(lock("l"), HOLDFAST_REMOVED) << "a lock was granted in the removed dictionary";
  }
  void begin_again() {
    holdfast_remove("d", 1);
    *this = InUse();
  }
  void cut_to(std::uint64_t size) {
    truncate_to("d.dict", size);
    expect_removed();
  }

  Dict dict;
};

/// Threads that use the whole dictionary in a loop until this object ends.
class Users {
 public:
  Users(InUse& used, int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, &used] {
        for (; !done_; ++rounds_) used.use_all();
      });
  }
  ~Users() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  void await_rounds(int count) const {
    for (const int goal = rounds_ + count; rounds_ < goal;) sleep_ms(1);
  }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

/// A process that uses the dictionary, with or without the guard.
class Host : public Child {
 public:
  using Way = std::function<void(InUse&, Channel&)>;
  Host(
      bool guarded, const Way& way, const std::function<void()>& before = [] {})
      : Child([&](Channel& test) {
          before();
          InUse used;
          for (int times = 0; guarded && times < 2; ++times) EXPECT_EQ(holdfast_guard_sigbus(), HOLDFAST_OK);
          way(used, test);
          return ::testing::Test::HasFailure() ? 1 : 0;
        }) {}
};

// --- truncated files ---

struct TakenAway {
  const char* name;
  void (*way)(InUse&);
  bool in_a_full_world = false;
};

class FilesTakenAway : public InSmallWorld, public ::testing::WithParamInterface<TakenAway> {
 public:
  static void all(InUse& used) { used.cut_to(0); }
  static void half(InUse& used) { used.cut_to(kSize / 2); }
  static void beneath_threads(InUse& used) {
    const Users users(used, 4);
    used.cut_to(8192);
  }
  /// Truncates the file while a loop waits for a lock. During the wait, a thread of the library checks the dictionary
  /// from time to time.
  static void beneath_our_thread(InUse& used) {
    const Holder holder(used.dict);
    LoopWaiting waiting;
    EXPECT_GE(waiting.fd(), 0);
    EXPECT_EQ(waiting.once(used.dict, "k"), HOLDFAST_LOCKED);
    truncate_to("d.dict", 0);
    int code = HOLDFAST_LOCKED;
    for (int i = 0; i < 600 && code == HOLDFAST_LOCKED; ++i) {
      sleep_ms(100);
      code = waiting.once(used.dict, "k");
    }
    EXPECT_EQ(code, HOLDFAST_REMOVED);
  }
  /// Truncates the file while a thread waits in a call, which must return an error.
  static void beneath_a_blocked_thread(InUse& used) {
    const Holder holder(used.dict);
    std::thread waits([&] {
      holdfast_lease lease{};
      EXPECT_EQ(holdfast_lock(used.dict.handle, "k", 1, 60, 0, &lease), HOLDFAST_REMOVED);
    });
    sleep_ms(50);
    truncate_to("d.dict", 0);
    waits.join();
  }
  /// Acts like `cp`: replaces the content with the content of a different file. For a moment, the file is empty.
  static void by_a_copy(InUse& used) {
    const platform::FileDescriptor fd(::open(path_of("d.dict").c_str(), O_RDWR | O_TRUNC));
    EXPECT_TRUE(fd);
    used.use_all();
    EXPECT_EQ(::ftruncate(fd.get(), kSize), 0);
    used.expect_removed();
  }
  static void the_table(InUse& used) {
    EXPECT_EQ(used.lock("l"), HOLDFAST_OK);
    truncate_to("processes", 0);
    int code = HOLDFAST_OK;
    for (int i = 0; i < 10 && code == HOLDFAST_OK; ++i) {
      holdfast_holder holder{};
      code = used.dict.holder("l", &holder);
      holdfast_parker* const parker = holdfast_parker_new();
      std::uint32_t woken = 0;
      if (parker != nullptr) holdfast_parker_sleep(parker, 0.01, &woken, 1);
      EXPECT_NE(used.lock("l"), HOLDFAST_OK) << "the lock was granted to a second holder";
    }
    EXPECT_EQ(used.dict.set("a", "value"), HOLDFAST_SYSTEM);
    EXPECT_THAT(holdfast_error(), HasSubstr("cut short"));
  }
  static void all_but_the_head(InUse& used) { lose_pages(used, 8192); }
  static void all_pages(InUse& used) { lose_pages(used, 0); }

 protected:
  /// Removes the file's pages from the offset `begin` on while the file system is full, so that later accesses to them
  /// fail.
  static void lose_pages(InUse& used, std::uint64_t begin) {
    const platform::FileDescriptor fd(::open(path_of("d.dict").c_str(), O_RDWR | O_CLOEXEC));
    constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    EXPECT_EQ(::fallocate(fd.get(), kHole, static_cast<off_t>(begin), static_cast<off_t>(kSize - begin)), 0);
    fill_it();
    used.expect_removed();
    empty_it();
  }
  /// Returns the exit status of a host whose file is taken away.
  static int end(bool guarded) {
    return Host(guarded,
                [](InUse& used, Channel&) {
                  GetParam().way(used);
                  if (GetParam().way != the_table) used.begin_again();
                })
        .wait();
  }
  static void expect_end(bool guarded, int status) {
    if (GetParam().in_a_full_world) return in_a_small_world([=] { EXPECT_EQ(end(guarded), status); });
    const ScratchDirectory scratch;
    EXPECT_EQ(end(guarded), status);
  }
};

TEST_P(FilesTakenAway, count_as_removed_dictionaries_with_the_guard) { expect_end(true, 0); }

TEST_P(FilesTakenAway, end_the_process_without_the_guard) { expect_end(false, kBusError); }

INSTANTIATE_TEST_SUITE_P(, FilesTakenAway,
                         ::testing::Values(TakenAway{"truncate", FilesTakenAway::all},
                                           TakenAway{"half", FilesTakenAway::half},
                                           TakenAway{"threads", FilesTakenAway::beneath_threads},
                                           TakenAway{"our_thread", FilesTakenAway::beneath_our_thread},
                                           TakenAway{"blocked_thread", FilesTakenAway::beneath_a_blocked_thread},
                                           TakenAway{"copy", FilesTakenAway::by_a_copy},
                                           TakenAway{"table", FilesTakenAway::the_table},
                                           TakenAway{"hole", FilesTakenAway::all_but_the_head, true},
                                           TakenAway{"all_is_hole", FilesTakenAway::all_pages, true}),
                         [](const auto& file) { return std::string(file.param.name); });

// --- other processes ---

class FilesOfMany : public ::testing::Test {
 protected:
  const ScratchDirectory scratch_;
};

// These processes do not access the memory that is gone.
TEST_F(FilesOfMany, count_as_removed_without_the_guard_because_of_the_mark_in_the_file) {
  Host other(false, [](InUse& used, Channel& test) {
    test.say("ready");
    test.hear();
    used.expect_removed();
    test.say("removed");
    test.hear();
    used.dict = Dict("d", {.size = kSize});
    EXPECT_EQ(used.dict.set("from the other", "value"), HOLDFAST_OK);
    test.say("opened again");
  });
  ASSERT_EQ(other.hear(), "ready");
  Host cuts(true, [&](InUse& used, Channel&) {
    used.cut_to(8192);
    EXPECT_EQ(other.ask("go on"), "removed");
    used.begin_again();
    EXPECT_EQ(other.ask("go on"), "opened again");
    EXPECT_EQ(used.dict.get("from the other"), text("value")) << "the two processes do not use the same new dictionary";
  });
  EXPECT_EQ(cuts.wait(), 0);
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(FilesOfMany, count_as_removed_in_a_forked_child_and_its_parent) {
  Host parent(true, [](InUse& used, Channel&) {
    const Users users(used, 2);
    for (const std::uint64_t size : {kSize / 2, std::uint64_t{0}}) {
      in_process([&] {
        used.cut_to(size);
        used.begin_again();
      });
      EXPECT_EQ(used.use_all(), HOLDFAST_OK) << "the dictionary that the child has created";
    }
  });
  EXPECT_EQ(parent.wait(), 0);
}

// --- images of other dictionaries ---

class FilesReplacedByImages : public FilesOfMany {
 protected:
  /// Returns a process that creates a different dictionary, with the same keys and a lock at other positions.
  static Started image_in(const std::string& directory) {
    return {"ready", [directory](Channel& test) {
              ::setenv("HOLDFAST_DIR", directory.c_str(), 1);
              InUse image("image");
              test.say(image.lock("l") == HOLDFAST_OK ? "ready" : holdfast_error());
              test.hear();
              return 0;
            }};
  }
  static void copy(const std::string& image) {
    std::filesystem::copy_file(image, path_of("d.dict"), std::filesystem::copy_options::overwrite_existing);
  }
  /// Overwrites the dictionary while no call is in progress. Its users continue with the new content, as they do with
  /// any damage.
  static void copy_unnoticed(InUse& used, const std::string& image, Child& newcomer) {
    copy(image);
    EXPECT_EQ(used.use_all(), HOLDFAST_OK);
    EXPECT_EQ(used.dict.get("key2999").code, HOLDFAST_OK);
    holdfast_lease lease{};
    EXPECT_EQ(used.dict.try_lock("another", 0, &lease), HOLDFAST_OK);
    EXPECT_EQ(used.dict.unlock("another", &lease), HOLDFAST_OK);
    // A new process cannot know which processes use the dictionary.
    EXPECT_THAT(newcomer.ask("open"), HasSubstr("was removed or replaced"));
    used.begin_again();
    EXPECT_EQ(newcomer.ask("open"), "ok");
    newcomer.say("end");
  }
  static void copy_under_use(InUse& used, const std::string& image) {
    for (int i = 0; i < 5; ++i) {
      {
        const Users users(used, 3);
        copy(image);
        users.await_rounds(3);
      }
      EXPECT_THAT(used.use_all(), testing::AnyOf(HOLDFAST_OK, HOLDFAST_REMOVED));
      used.begin_again();
    }
  }
  void expect_no_end(const std::string& directory) {
    Child newcomer([](Channel& test) {
      while (test.hear() == "open")
        test.say(Dict("d", {.size = kSize}).status == HOLDFAST_OK ? "ok" : holdfast_error());
      return 0;
    });
    const Started other = image_in(directory);
    Host host(true, [&](InUse& used, Channel&) {
      copy_unnoticed(used, directory + "/image.dict", newcomer);
      copy_under_use(used, directory + "/image.dict");
    });
    EXPECT_EQ(host.wait(), 0);
  }
};

// The image has the same size, so users see its content as damage.
TEST_F(FilesReplacedByImages, of_the_same_world_end_no_process) { expect_no_end(scratch_.path()); }

TEST_F(FilesReplacedByImages, of_another_world_end_no_process) {
  std::filesystem::create_directory(scratch_ / "elsewhere");
  std::filesystem::permissions(scratch_ / "elsewhere", std::filesystem::perms::owner_all);
  expect_no_end(scratch_ / "elsewhere");
}

// --- the host's own handler, and its own faults ---

char* own_page() {
  const int fd = ::memfd_create("own", 0);
  EXPECT_EQ(::ftruncate(fd, 4096), 0);
  auto* const page = static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  EXPECT_EQ(::ftruncate(fd, 0), 0);
  return page;
}

sigjmp_buf back;
int caught = 0;
void* faulted = nullptr;
bool blocked = false;
std::uintptr_t frame = 0;

void note_and_leave(int signal) {
  const char here = 0;
  frame = reinterpret_cast<std::uintptr_t>(&here);
  caught = signal;
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  blocked = sigismember(&mask, SIGUSR2) == 1;
  siglongjmp(back, 1);
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  faulted = info->si_addr;
  note_and_leave(signal);
}

std::function<void()> handler_with(int flags) {
  return [flags] {
    struct sigaction action {};
    if ((flags & SA_SIGINFO) != 0)
      action.sa_sigaction = on_bus_error;
    else
      action.sa_handler = note_and_leave;
    action.sa_flags = flags;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGBUS, &action, nullptr);
  };
}

/// Expects that the host's handler gets a fault in the host's own memory.
void expect_own_fault(char* place, bool has_address = true) {
  caught = 0;
  faulted = nullptr;
  blocked = false;
  if (sigsetjmp(back, 1) == 0) *place = 1;
  EXPECT_EQ(caught, SIGBUS);
  EXPECT_TRUE(blocked);
  if (has_address) {
    EXPECT_EQ(faulted, place);
  }
}

void cut(InUse& used) {
  used.cut_to(0);
  used.begin_again();
}

void between_faults_of_both(InUse& used, bool has_address = true) {
  char* const page = own_page();
  cut(used);
  expect_own_fault(page + 7, has_address);
  cut(used);
  expect_own_fault(page + 8, has_address);
}

class TheGuardAndTheHost : public FilesOfMany {
 protected:
  static void expect_good_end(const std::function<void()>& before, const std::function<void(InUse&)>& way) {
    Host host(
        true, [&](InUse& used, Channel&) { way(used); }, before);
    EXPECT_EQ(host.wait(), 0);
  }
  /// Expects that the process prints this output, and that the signal ends it.
  static void expect_bus_error(const std::function<void()>& before, const Host::Way& way, const std::string& said) {
    Host host(true, way, before);
    EXPECT_EQ(host.hear(), said);
    EXPECT_EQ(host.wait(), kBusError);
  }
};

TEST_F(TheGuardAndTheHost, each_get_their_own_faults) {
  expect_good_end(handler_with(SA_SIGINFO), [](InUse& used) { between_faults_of_both(used); });
}

TEST_F(TheGuardAndTheHost, each_get_their_own_faults_with_a_handler_without_siginfo) {
  expect_good_end(handler_with(0), [](InUse& used) { between_faults_of_both(used, false); });
}

// With SA_ONSTACK, both the host's handler and the guard run on the alternate stack.
TEST_F(TheGuardAndTheHost, each_get_their_own_faults_on_the_hosts_stack) {
  expect_good_end(handler_with(SA_SIGINFO | SA_ONSTACK), [](InUse& used) {
    static std::array<char, 65536> stack;
    const stack_t other{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    EXPECT_EQ(sigaltstack(&other, nullptr), 0);
    between_faults_of_both(used);
    const auto begin = reinterpret_cast<std::uintptr_t>(stack.data());
    EXPECT_TRUE(frame >= begin && frame < begin + stack.size());
  });
}

TEST_F(TheGuardAndTheHost, each_get_their_own_faults_in_a_forked_child) {
  expect_good_end(handler_with(SA_SIGINFO), [](InUse& used) {
    in_process([&] { between_faults_of_both(used); });
    between_faults_of_both(used);
  });
}

// With SA_RESETHAND, faults in the dictionary must not reset the host's handler. The second fault in the host's own
// memory ends the process.
TEST_F(TheGuardAndTheHost, share_a_handler_that_handles_only_one_signal) {
  const auto way = [](InUse& used, Channel& test) {
    char* const page = own_page();
    cut(used);
    expect_own_fault(page);
    cut(used);
    if (!HasFailure()) test.say("once");
    page[1] = 1;
  };
  expect_bus_error(handler_with(SA_SIGINFO | SA_RESETHAND), way, "once");
}

TEST_F(TheGuardAndTheHost, end_the_process_on_foreign_faults_and_while_the_signal_is_blocked) {
  const auto nothing = [] {};
  expect_bus_error(
      nothing, [](InUse&, Channel&) { own_page()[0] = 1; }, "(end)");
  expect_bus_error(
      nothing, [](InUse&, Channel&) { ::raise(SIGBUS); }, "(end)");
  const auto block = [](InUse& used, Channel&) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGBUS);
    sigprocmask(SIG_BLOCK, &mask, nullptr);  // the kernel then calls no handler
    cut(used);
  };
  expect_bus_error(nothing, block, "(end)");
}

TEST_F(TheGuardAndTheHost, ignore_sent_signals_that_the_host_ignores_but_not_faults) {
  const auto way = [](InUse&, Channel& test) {
    ::raise(SIGBUS);
    test.say("ignored");
    own_page()[0] = 1;
  };
  expect_bus_error([] { std::signal(SIGBUS, SIG_IGN); }, way, "ignored");
}

}  // namespace
}  // namespace holdfast::test
