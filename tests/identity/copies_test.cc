// Tests several copies of the library in one process. A process has several copies if, for example, it loads the
// library from a rock and also the library from a package. Other processes see each copy as a separate process, and a
// lock never has two holders.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "identity/participant.h"

namespace holdfast::test {
namespace {

/// Calls a copy of the library that is not the copy with which this program is linked.
class Copy {
 public:
  explicit Copy(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    const holdfast_options options{65536, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    call<decltype(holdfast_open)>("holdfast_open")("dict", 4, &options, &dict_);
  }
  bool is_open() const { return dict_ != nullptr; }
  std::string lock() {
    const auto lock_try = call<decltype(holdfast_lock_try)>("holdfast_lock_try");
    return holdfast_code_text(unless_held_up([&] { return lock_try(dict_, "key", 3, 0, 0, 0, &lease_); }));
  }
  std::string unlock() {
    return holdfast_code_text(call<decltype(holdfast_unlock)>("holdfast_unlock")(dict_, "key", 3, &lease_));
  }

 private:
  template <class Function>
  Function* call(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

  void* handle_;
  holdfast_dict* dict_ = nullptr;
  holdfast_lease lease_{};
};

class IdentityCopies : public testing::Test {
 protected:
  /// Opens two more copies and runs `body` in a new process. Returns the lines that the process reported.
  static std::string run(const std::string& second, const std::function<void(Copy&, Copy&, Channel&)>& body) {
    Child process([&](Channel& test) {
      Copy one(HOLDFAST_LIBRARY);
      Copy other(second);
      if (!one.is_open() || !other.is_open()) {
        test.say("not opened");
        return 1;
      }
      body(one, other, test);
      test.say("done");
      return 0;
    });
    std::string said;
    for (std::string line = process.hear(); line != "(end)" && line != "(silence)"; line = process.hear())
      said += line + "\n";
    return said + "exit " + std::to_string(process.wait());
  }
  void SetUp() override { std::filesystem::copy_file(HOLDFAST_LIBRARY, second_); }
  void TearDown() override { std::filesystem::remove(second_); }

  const ScratchDirectory directory_;
  const std::string second_ = std::string(HOLDFAST_LIBRARY) + ".copy-" + std::to_string(::getpid());
};

TEST_F(IdentityCopies, exclude_each_other_in_one_process) {
  const std::string said = run(second_, [](Copy& one, Copy& other, Channel& test) {
    for (int round = 0; round < 100; ++round) {
      if (one.lock() != "ok" || other.lock() != "locked" || one.unlock() != "ok") return test.say("one");
      if (other.lock() != "ok" || one.lock() != "locked" || other.unlock() != "ok") return test.say("other");
    }
  });
  EXPECT_EQ(said, "done\nexit 0");
}

TEST_F(IdentityCopies, do_not_own_their_parents_locks_in_a_forked_child) {
  const std::string said = run(second_, [](Copy& one, Copy& other, Channel& test) {
    if (one.lock() != "ok") return test.say("parent");
    Child child([&](Channel& parent) {
      parent.say(one.lock() + ", " + other.lock() + ", " + one.unlock());
      return 0;
    });
    test.say(child.hear());
    test.say(one.unlock() + ", " + std::to_string(child.wait()));
  });
  EXPECT_EQ(said, "locked, locked, not owner\nok, 0\ndone\nexit 0");
}

TEST_F(IdentityCopies, release_the_locks_that_their_process_held) {
  const std::string said = run(second_, [](Copy& one, Copy&, Channel& test) { test.say(one.lock()); });
  EXPECT_EQ(said, "ok\ndone\nexit 0");
  EXPECT_EQ(run(second_, [](Copy&, Copy& other, Channel& test) { test.say(other.lock()); }), "ok\ndone\nexit 0");
}

}  // namespace
}  // namespace holdfast::test
