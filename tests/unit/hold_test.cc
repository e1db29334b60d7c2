// Tests locks that are held over exec, and how other processes end them: holdfast_hold_over_exec,
// holdfast_hold_with_keeper, holdfast_use_over_exec, holdfast_end_hold, holdfast_lock_break. This program never enters
// a world itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/dict.h"
#include "support/name_files.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr const char* kKey = "key";

int try_lock(Dict& dict, holdfast_lease& lease) {
  return unless_held_up([&] { return holdfast_lock_try(dict.handle, kKey, 3, 0, 0, 0, &lease); });
}

int try_read(Dict& dict, holdfast_lease& lease) {
  return unless_held_up([&] {
    return holdfast_permits_try(dict.handle, kKey, 3, HOLDFAST_RWLOCK, 1, HOLDFAST_ALL_PERMITS, 0, 0, 0, &lease);
  });
}

std::string program_of(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

enum class Inherits { yes, no };

/// Takes the lock, reports the result, and executes `sleep`.
int hold_and_exec_sleep(Channel& parent, Inherits inherits) {
  int fd = -1;
  if (holdfast_hold_over_exec(&fd) != HOLDFAST_OK) return 2;
  Dict dict("d");
  holdfast_lease lease{};
  if (try_lock(dict, lease) != HOLDFAST_OK) return 3;
  if (inherits == Inherits::yes) ::fcntl(fd, F_SETFD, 0);
  parent.say(std::to_string(fd));
  ::execlp("sleep", "sleep", "600", nullptr);
  return 4;
}

bool is_sleep(const Child& child) {
  return eventually([&] { return program_of(child.pid()) == "sleep"; });
}

int open_status(const std::string& name = "d") {
  Child child([&](Channel&) { return Dict(name).status; });
  return child.wait();
}

/// A program that holds the lock over exec. If it does not inherit the descriptor, it holds the lock only until exec.
class Program : public Child {
 public:
  explicit Program(Inherits inherits = Inherits::yes)
      : Child([inherits](Channel& parent) { return hold_and_exec_sleep(parent, inherits); }) {
    EXPECT_NE(hear(), "(end)");
    EXPECT_TRUE(is_sleep(*this));
  }
};

/// Whenever it gets a line, tries to take the lock, reports the result, and releases the lock if it took it.
int contender(Channel& parent) {
  Dict dict("d");
  for (std::string order = parent.hear(); order == "try"; order = parent.hear()) {
    holdfast_lease lease{};
    holdfast_holder holder{};
    const int code = try_lock(dict, lease);
    holdfast_lock_holder(dict.handle, kKey, 3, &holder);
    if (code == HOLDFAST_OK) holdfast_unlock(dict.handle, kKey, 3, &lease);
    parent.say(holdfast_code_text(code) + std::string(" ") + std::to_string(code == HOLDFAST_OK ? 0 : holder.pid));
  }
  return 0;
}

TEST(hold, outlives_exec_and_ends_with_the_program) {
  const ScratchDirectory directory;
  Program holder;
  Child other(&contender);  // enters the world, which otherwise only the program uses
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
  holder.stop();
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
  holder.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return other.ask("try") == "ok 0"; }));
}

TEST(hold, ends_at_exec_if_the_descriptor_does) {
  const ScratchDirectory directory;
  Program holder(Inherits::no);
  Child other(&contender);
  EXPECT_TRUE(eventually([&] { return other.ask("try") == "ok 0"; }));
}

TEST(hold, lasts_as_long_as_a_copy_of_the_descriptor) {
  const ScratchDirectory directory;
  Child keeper([](Channel& parent) {
    int fd = -1;
    if (holdfast_hold_over_exec(&fd) != HOLDFAST_OK) return 2;
    Dict dict("d");
    holdfast_lease lease{};
    if (try_lock(dict, lease) != HOLDFAST_OK) return 3;
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::sleep(60);
      ::_exit(0);
    }
    parent.say(std::to_string(copy));
    parent.hear();
    return 0;
  });
  const pid_t copy = std::stoi(keeper.hear());
  Child other(&contender);
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(keeper.pid()));
  keeper.kill_and_wait();
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(keeper.pid()));
  ::kill(copy, SIGKILL);
  EXPECT_TRUE(eventually([&] { return other.ask("try") == "ok 0"; }));
}

/// Takes the lock and executes `sleep`, which has copies of all descriptors. Before that, forks a child that ends the
/// holds whose indexes it gets, and reports the results.
int hold_and_leave_an_ender(Channel& parent) {
  std::array<int, 2> fds{};
  if (holdfast_hold_with_keeper(fds.data()) != HOLDFAST_OK) return 2;
  Dict dict("d");
  holdfast_lease lease{};
  if (try_lock(dict, lease) != HOLDFAST_OK) return 3;
  if (::fork() == 0) {
    parent.say("held");
    for (std::string which = parent.hear(); which == "0" || which == "1"; which = parent.hear())
      parent.say(holdfast_code_text(holdfast_end_hold(fds.at(which == "0" ? 0 : 1))));
    ::_exit(0);
  }
  for (const int fd : fds) ::fcntl(fd, F_SETFD, 0);
  ::execlp("sleep", "sleep", "600", nullptr);
  return 4;
}

// The program's descriptor is the first, and the keeper's is the second. The hold lasts until both are ended.
TEST(hold, is_ended_by_any_process_with_copies_of_the_programs_and_the_keepers_descriptor) {
  for (const std::string order : {"10", "01"}) {
    const ScratchDirectory directory;
    Child holder(&hold_and_leave_an_ender);
    ASSERT_EQ(holder.hear(), "held");
    ASSERT_TRUE(is_sleep(holder));
    Child other(&contender);
    EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
    EXPECT_EQ(holder.ask(order.substr(0, 1)), "ok");
    EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid())) << order;
    EXPECT_EQ(holder.ask(order.substr(1)), "ok");
    EXPECT_EQ(holder.ask("0"), "invalid argument") << "this descriptor is already closed";
    EXPECT_EQ(other.ask("try"), "ok 0") << order;
  }
}

std::vector<std::string> files_of(const ScratchDirectory& directory, const std::string& prefix) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path().string());
  return found;
}

/// Returns what another user's program could do with the descriptor, or "" if it could do nothing.
std::string way_into_the_world(int fd) {
  struct stat info {};
  char byte = 0;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return "no file";
  if (info.st_size != 0 || ::pread(fd, &byte, 1, 0) != 0) return "read content";
  if (::pwrite(fd, &byte, 1, 0) >= 0 || ::ftruncate(fd, 1) == 0) return "written";
  if (::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) return "mapped";
  if ((info.st_mode & 0222) != 0) return "write, according to the mode";
  if (::geteuid() != 0) return "";
  if (::setresuid(65534, 65534, 65534) != 0) return "root";
  const std::string again = "/proc/self/fd/" + std::to_string(fd);
  for (const int access : {O_RDONLY, O_WRONLY, O_RDWR})
    if (::open(again.c_str(), access) >= 0) return "opened again";
  return "";
}

TEST(hold, gives_a_program_no_access_to_the_world) {
  const ScratchDirectory directory;
  for (int which = 0; which < 2; ++which) {
    in_process([which] {
      std::array<int, 2> fds{-1, -1};
      int life = -1;
      ASSERT_EQ(holdfast_hold_over_exec(&life), HOLDFAST_OK);
      Dict dict("d");
      ASSERT_EQ(holdfast_use_over_exec(dict.handle, fds.data()), HOLDFAST_OK);
      EXPECT_EQ(way_into_the_world(which == 0 ? life : fds[0]), "");
      EXPECT_EQ(fds[1], -1);
    });
  }
}

TEST(hold, in_a_file_that_is_deleted_by_hand_stays_exclusive) {
  const ScratchDirectory directory;
  Program holder;
  Child other(&contender);
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
  for (const std::string& file : files_of(directory, "hold-")) ASSERT_EQ(::unlink(file.c_str()), 0);
  EXPECT_NE(other.ask("try"), "ok 0");
}

TEST(hold, outlives_the_last_process_of_its_world) {
  const ScratchDirectory directory;
  Program holder;
  Child last([](Channel&) -> int { std::exit(Dict("d").status); });  // leaves the world, unlike _exit()
  EXPECT_EQ(last.wait(), HOLDFAST_OK);
  EXPECT_EQ(files_of(directory, "d.dict").size(), 1U);
  Child other(&contender);
  EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
}

TEST(hold, of_a_program_alone_protects_its_world_from_another_layout) {
  const ScratchDirectory directory;
  Program holder;
  {
    constexpr std::uint32_t kOther = 5;
    const int table = ::open((directory / "processes").c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(table, &kOther, sizeof kOther, 8), static_cast<ssize_t>(sizeof kOther));
    ::close(table);
  }
  EXPECT_EQ(open_status("other"), HOLDFAST_CORRUPT);
  holder.kill_and_wait();
  EXPECT_TRUE(eventually([] { return open_status("other") == HOLDFAST_OK; }));
}

TEST(hold, of_programs_that_have_ended_leaves_nothing_behind) {
  const ScratchDirectory directory;
  Child other(&contender);
  EXPECT_EQ(other.ask("try"), "ok 0");
  for (int run = 0; run < 4; ++run) {
    Program holder;
    EXPECT_EQ(files_of(directory, "hold-").size(), 1U);
    EXPECT_EQ(other.ask("try"), "locked " + std::to_string(holder.pid()));
    holder.kill_and_wait();
    EXPECT_TRUE(eventually([&] { return other.ask("try") == "ok 0"; }));
  }
  other.kill_and_wait();
  EXPECT_EQ(open_status(), HOLDFAST_OK);
  EXPECT_TRUE(files_of(directory, "hold-").empty());
}

TEST(hold, works_in_a_process_that_has_not_entered) {
  in_a_world([] {
    const Dict dict("d");
    int fd = 0;
    EXPECT_EQ(holdfast_hold_over_exec(&fd), HOLDFAST_EXISTS);
    EXPECT_EQ(fd, -1);
    in_process([] {
      int of_child = -1;
      EXPECT_EQ(holdfast_hold_over_exec(&of_child), HOLDFAST_OK);
    });
  });
}

/// Executes `sleep`, which uses the dictionary only through descriptors that it inherits over exec.
int use_and_exec_sleep(Channel& parent) {
  std::array<int, 2> fds{};
  int life = -1;
  if (holdfast_hold_over_exec(&life) != HOLDFAST_OK) return 2;
  {
    Dict dict("d");
    if (holdfast_use_over_exec(dict.handle, fds.data()) != HOLDFAST_OK) return 3;
  }
  for (const int fd : {life, fds[0]}) {
    if (::fcntl(fd, F_GETFD) != FD_CLOEXEC) return 4;
    ::fcntl(fd, F_SETFD, 0);
  }
  parent.say("used");
  ::execlp("sleep", "sleep", "600", nullptr);
  return 5;
}

void expect_refusal_after_loss_of(const char* file) {
  const ScratchDirectory directory;
  Child user(&use_and_exec_sleep);
  ASSERT_EQ(user.hear(), "used");
  ASSERT_TRUE(is_sleep(user));
  ASSERT_EQ(::unlink((directory / file).c_str()), 0);
  EXPECT_EQ(open_status(), HOLDFAST_MISMATCH);
  EXPECT_EQ(open_status(), HOLDFAST_MISMATCH);
  user.kill_and_wait();
  EXPECT_TRUE(eventually([] { return open_status() == HOLDFAST_OK; }));
}

TEST(use, outlives_exec_even_if_the_table_is_deleted) { expect_refusal_after_loss_of("processes"); }

TEST(use, over_exec_blocks_no_other_dictionary_of_the_next_world) {
  const ScratchDirectory directory;
  Child user(&use_and_exec_sleep);
  ASSERT_EQ(user.hear(), "used");
  ASSERT_TRUE(is_sleep(user));
  ASSERT_EQ(::unlink((directory / "processes").c_str()), 0);
  EXPECT_EQ(open_status(sibling_name("d")), HOLDFAST_OK);
  EXPECT_EQ(open_status(), HOLDFAST_MISMATCH);
}

TEST(use, outlives_exec_even_if_the_dictionary_is_deleted) { expect_refusal_after_loss_of("d.dict"); }

TEST(use, is_ended_by_any_process_with_copies_of_the_descriptors) {
  const ScratchDirectory directory;
  Child user([](Channel& parent) {
    std::array<int, 2> fds{};
    Dict dict("d");
    if (holdfast_use_over_exec(dict.handle, fds.data()) != HOLDFAST_OK) return 2;
    if (::fork() == 0) {
      parent.say("used");
      if (parent.hear() != "end") ::_exit(1);
      parent.say(holdfast_code_text(holdfast_end_hold(fds[0])));
      parent.say(std::to_string(::fcntl(fds[0], F_GETFD)));
      ::_exit(0);
    }
    std::array<char*, 3> words{const_cast<char*>("sleep"), const_cast<char*>("600"), nullptr};
    ::fcntl(fds[0], F_SETFD, 0);
    ::execvp("sleep", words.data());
    return 3;
  });
  ASSERT_EQ(user.hear(), "used");
  ASSERT_TRUE(is_sleep(user));
  ASSERT_EQ(::unlink((directory / "processes").c_str()), 0);
  EXPECT_EQ(open_status(), HOLDFAST_MISMATCH);
  EXPECT_EQ(user.ask("end"), "ok");
  EXPECT_EQ(user.hear(), "-1");
}

TEST(use, belongs_to_the_file_with_the_name) {
  const ScratchDirectory directory;
  in_process([&] {
    const std::string file = directory / "d.dict";
    const std::string elsewhere = directory / "e.dict";
    std::array<int, 2> fds{};
    Dict dict("d");
    ASSERT_EQ(::rename(file.c_str(), elsewhere.c_str()), 0);
    EXPECT_EQ(holdfast_use_over_exec(dict.handle, fds.data()), HOLDFAST_MISMATCH);
    EXPECT_EQ(fds, (std::array{-1, -1}));
    ASSERT_EQ(::rename(elsewhere.c_str(), file.c_str()), 0);
    EXPECT_EQ(holdfast_use_over_exec(dict.handle, fds.data()), HOLDFAST_OK);
    holdfast_remove("d", 1);
    EXPECT_EQ(holdfast_use_over_exec(dict.handle, fds.data()), HOLDFAST_REMOVED);
  });
}

void expect_broken(int (*take)(Dict&, holdfast_lease&)) {
  in_a_world([take] {
    Dict dict("d");
    holdfast_lease held{};
    ASSERT_EQ(take(dict, held), HOLDFAST_OK);
    in_process([held] {
      Dict same("d");
      const auto broken = [&](holdfast_lease lease) {
        return unless_held_up([&] { return holdfast_lock_break(same.handle, kKey, 3, &lease); });
      };
      EXPECT_EQ(broken({held.owner, held.sequence + 1}), HOLDFAST_NOT_OWNER);
      EXPECT_EQ(broken({0, held.sequence}), HOLDFAST_NOT_OWNER);
      EXPECT_EQ(broken(held), HOLDFAST_OK);
      EXPECT_EQ(broken(held), HOLDFAST_NOT_OWNER);
      holdfast_lease lease{};
      EXPECT_EQ(try_lock(same, lease), HOLDFAST_OK);
    });
    EXPECT_EQ(holdfast_unlock(dict.handle, kKey, 3, &held), HOLDFAST_NOT_OWNER);
  });
}

TEST(hold, of_a_lock_is_broken_only_by_its_own_lease) { expect_broken(&try_lock); }
TEST(hold, of_permits_is_broken_only_by_its_own_lease) { expect_broken(&try_read); }

}  // namespace
}  // namespace holdfast::test
