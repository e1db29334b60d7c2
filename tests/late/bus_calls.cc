// Uses a dictionary while somebody takes its memory away, with the guard or without.
//
//   bus_calls HOW [unguarded]
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "dict_in_use.h"

namespace {

using namespace late;

/// Threads that use all of it, again and again, until this goes.
class Users {
 public:
  explicit Users(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        for (; !done_; ++rounds_) use_all();
      });
    }
  }
  ~Users() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  void await_rounds(int count) const {
    for (const int goal = rounds_ + count; rounds_ < goal;) ::usleep(1000);
  }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

/// This program again, in another role. It has a line to read from us, and one to say.
class Partner {
 public:
  explicit Partner(const char* role, const std::string& directory = "") {
    std::array<int, 2> there{};
    std::array<int, 2> back{};
    check(::pipe2(there.data(), O_CLOEXEC) == 0 && ::pipe2(back.data(), O_CLOEXEC) == 0, "pipe2");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!directory.empty()) ::setenv("HOLDFAST_DIR", directory.c_str(), 1);
      ::dup2(there[0], STDIN_FILENO);
      ::dup2(back[1], STDOUT_FILENO);
      ::execl("/proc/self/exe", "bus_calls", role, nullptr);
      ::_exit(127);
    }
    ::close(there[0]);
    ::close(back[1]);
    to_ = there[1];
    from_ = ::fdopen(back[0], "r");
  }
  ~Partner() {
    ::close(to_);
    std::fclose(from_);
    ::waitpid(pid_, nullptr, 0);
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  void expect(const char* line) {
    std::array<char, 512> heard{};
    if (std::fgets(heard.data(), heard.size(), from_) == nullptr) heard = {"(it has ended)"};
    if (std::strstr(heard.data(), line) != nullptr) return;
    std::printf("the other process: %s instead of %s\n", heard.data(), line);
    std::fflush(stdout);
    _exit(1);
  }
  void go_on() { check(::write(to_, "\n", 1) == 1, "write"); }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
};

/// For partners: says a line and waits until they may go on.
void report(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
  if (std::getchar() == EOF) _exit(1);
}

void truncate_dict() {
  truncate_to("d.dict", 0);
  expect_removed();
  begin_anew();
}

/// A thread waits in a call meanwhile: it is told.
void truncate_under_a_blocked_thread() {
  Partner holder("holder");
  holder.expect("holds it");
  std::thread waits([] {
    holdfast_lease lease{};
    check(holdfast_lock(dict, "l", 1, 60, 0, &lease) == HOLDFAST_REMOVED, "the wait in a call");
  });
  ::usleep(50'000);
  truncate_to("d.dict", 0);
  waits.join();
  holder.go_on();
  begin_anew();
}

void truncate_half() {
  truncate_to("d.dict", kSize / 2);
  expect_removed();
  begin_anew();
}

void truncate_under_threads() {
  {
    const Users users(4);
    truncate_to("d.dict", 8192);
    expect_removed();
  }
  begin_anew();
}

/// A loop waits for a lock, so a thread of the library looks at the dictionary now and then.
void truncate_under_our_thread() {
  Partner holder("holder");
  holder.expect("holds it");
  holdfast_parker* const parker = holdfast_parker_new();
  check(holdfast_parker_fd(parker) >= 0, "descriptor");
  holdfast_lease lease{};
  holdfast_wait wait{};
  wait.parker = parker;
  wait.waiter = holdfast_waiter_open(parker);
  check(holdfast_lock_wait(dict, "l", 1, 0, &wait, &lease) == HOLDFAST_LOCKED, "wait");
  truncate_to("d.dict", 0);
  int code = HOLDFAST_LOCKED;
  for (int i = 0; i < 600 && code == HOLDFAST_LOCKED; ++i) {
    ::usleep(100'000);
    code = holdfast_lock_wait(dict, "l", 1, 0, &wait, &lease);
  }
  check(code == HOLDFAST_REMOVED, "the wait goes on");
  holder.go_on();
  begin_anew();
}

int be_holder() {
  open_dict();
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  report("holds it");
  return 0;
}

/// What `cp` does: another file's bytes in the place of these, which are gone for a moment.
void copy_over() {
  const std::string path = path_of("d.dict");
  const int fd = ::open(path.c_str(), O_RDWR | O_TRUNC);
  check(fd >= 0, "open for writing");
  use_all();
  check(::ftruncate(fd, kSize) == 0, "ftruncate");
  expect_removed();
  begin_anew();
}

void truncate_table() {
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  truncate_to("processes", 0);
  holdfast_holder holder{};
  int code = HOLDFAST_OK;
  for (int i = 0; i < 10 && code == HOLDFAST_OK; ++i) {
    code = holdfast_lock_holder(dict, "l", 1, &holder);
    holdfast_parker* const parker = holdfast_parker_new();
    std::uint32_t woken = 0;
    if (parker != nullptr) holdfast_parker_sleep(parker, 0.01, &woken, 1);
    holdfast_lease none{};
    check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &none) != HOLDFAST_OK, "no second holder");
  }
  check(set("a") == HOLDFAST_SYSTEM && std::strstr(holdfast_error(), "cut short") != nullptr, "set in a lost world");
}

// --- other processes ---

/// They notice by the mark in the file, and touch nothing that is gone: this one has no guard.
int be_another_user() {
  open_dict();
  check(use_all() == HOLDFAST_OK, "use");
  report("ready");
  expect_removed();
  report("removed");
  open_dict();
  check(set("from the other") == HOLDFAST_OK, "use of the next one");
  std::puts("anew");
  return 0;
}

void truncate_beside_another() {
  Partner other("another_user");
  other.expect("ready");
  truncate_to("d.dict", 8192);
  expect_removed();
  other.go_on();
  other.expect("removed");
  begin_anew();
  other.go_on();
  other.expect("anew");
  check(get("from the other") == HOLDFAST_OK, "both have the same one");
}

void truncate_in_children() {
  const Users users(2);
  for (const std::uint64_t size : {kSize / 2, std::uint64_t{0}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      truncate_to("d.dict", size);
      expect_removed();
      begin_anew();
      ::_exit(0);
    }
    int status = -1;
    check(::waitpid(child, &status, 0) == child && status == 0, "the child");
    check(use_all() == HOLDFAST_OK, "use of what the child has made");
  }
}

// --- images of other dictionaries ---

void copy(const std::string& from, const std::string& to) {
  const std::array<const char*, 4> arguments{"cp", from.c_str(), to.c_str(), nullptr};
  pid_t child = -1;
  check(::posix_spawnp(&child, "cp", nullptr, nullptr, const_cast<char* const*>(arguments.data()), environ) == 0, "cp");
  int status = -1;
  check(::waitpid(child, &status, 0) == child && status == 0, "cp");
}

/// A dictionary with a lock and the same keys, but other places for them.
void fill_image(const char* name) {
  const holdfast_options options{kSize, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  holdfast_dict* const own = dict;
  check(holdfast_open(name, std::strlen(name), &options, &dict) == HOLDFAST_OK, "open");
  check(use_all() == HOLDFAST_OK, "use");
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  dict = own;
}

int be_image() {
  fill_image("image");
  report("ready");
  return 0;
}

int be_newcomer() {
  const holdfast_options options{kSize, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  const int code = holdfast_open("d", 1, &options, &dict);
  std::printf("%s: %s\n", holdfast_code_text(code), holdfast_error());
  return 0;
}

/// Nobody is in the dictionary while it is overwritten: its users go on with what is there, as with any damage.
void copy_unnoticed(const std::string& image) {
  copy(image, path_of("d.dict"));
  check(use_all() == HOLDFAST_OK && get("key2999") == HOLDFAST_OK, "use of the image");
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "another", 7, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  check(holdfast_unlock(dict, "another", 7, &lease) == HOLDFAST_OK, "unlock");
  // A latecomer would not know of those that use it.
  Partner("newcomer").expect("was removed or replaced meanwhile");
  begin_anew();
  Partner("newcomer").expect("ok");
}

void copy_under_use(const std::string& image) {
  for (int i = 0; i < 5; ++i) {
    {
      const Users users(3);
      copy(image, path_of("d.dict"));
      users.await_rounds(3);
    }
    const int code = use_all();
    check(code == HOLDFAST_OK || code == HOLDFAST_REMOVED, "use of what is left");
    begin_anew();
  }
}

void image_of_this_world() {
  fill_image("image");
  copy_unnoticed(path_of("image.dict"));
  copy_under_use(path_of("image.dict"));
}

void image_of_another_world() {
  const std::string elsewhere = path_of("elsewhere");
  check(::mkdir(elsewhere.c_str(), 0700) == 0, "mkdir");
  Partner partner("image_maker", elsewhere);
  partner.expect("ready");
  copy_unnoticed(elsewhere + "/image.dict");
  copy_under_use(elsewhere + "/image.dict");
  partner.go_on();
}

// --- a full file system ---

void mount_small() {
  const char* const directory = std::getenv("HOLDFAST_DIR");
  if (::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("tmpfs", directory, "tmpfs", 0, "size=4m,mode=0700") == 0)
    return;
  std::printf("skipped: a small tmpfs in a mount namespace: %s\n", std::strerror(errno));
  std::fflush(stdout);
  _exit(0);
}

/// The memory of that part goes to a file that takes all there is.
void take_away(std::uint64_t begin, std::uint64_t size) {
  const int fd = ::open(path_of("d.dict").c_str(), O_RDWR | O_CLOEXEC);
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  check(fd >= 0 && ::fallocate(fd, kHole, static_cast<off_t>(begin), static_cast<off_t>(size)) == 0, "punch a hole");
  ::close(fd);
  const int filler = ::open(path_of("filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::array<char, 4096> page{};
  while (::write(filler, page.data(), page.size()) > 0) continue;
  check(filler >= 0 && errno == ENOSPC, "fill the file system");
  ::close(filler);
}

void lose_pages(std::uint64_t begin, std::uint64_t size) {
  take_away(begin, size);
  expect_removed();
  ::unlink(path_of("filler").c_str());
  begin_anew();
}

void hole_behind_the_head() { lose_pages(8192, kSize - 8192); }
void hole_instead_of_all() { lose_pages(0, kSize); }

constexpr std::array kWays = {Way{"truncate", truncate_dict},
                              Way{"half", truncate_half},
                              Way{"threads", truncate_under_threads},
                              Way{"our_thread", truncate_under_our_thread},
                              Way{"blocked_thread", truncate_under_a_blocked_thread},
                              Way{"copy", copy_over},
                              Way{"table", truncate_table},
                              Way{"hole", hole_behind_the_head, mount_small},
                              Way{"all_is_hole", hole_instead_of_all, mount_small},
                              Way{"another_process", truncate_beside_another},
                              Way{"children", truncate_in_children},
                              Way{"image", image_of_this_world},
                              Way{"foreign_image", image_of_another_world}};

}  // namespace

int main(int count, char** values) {
  if (count < 2) return 2;
  const std::string_view how = values[1];
  if (how == "another_user") return be_another_user();
  if (how == "image_maker") return be_image();
  if (how == "newcomer") return be_newcomer();
  if (how == "holder") return be_holder();
  return run_way(kWays, values[1], count == 2);
}
