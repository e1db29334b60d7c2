// A fixture with an open runtime directory and a dictionary's file in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "platform/platform.h"
#include "support/started.h"
#include "world/runtime_directory.h"

namespace holdfast::test {

inline const std::string kName = "a.dict";

inline void nothing(std::byte*) {}

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto directory = RuntimeDirectory::at(scratch_.path());
    ASSERT_TRUE(directory) << directory.status().message;
    directory_ = *directory;
  }
  std::string path() const { return scratch_ / kName; }

  void overwrite(std::size_t at, const void* bytes, std::size_t size) {
    const platform::FileDescriptor fd(::open(path().c_str(), O_WRONLY));
    ASSERT_EQ(static_cast<ssize_t>(size), ::pwrite(fd.get(), bytes, size, static_cast<off_t>(at)));
  }
  template <class T>
  void overwrite(std::size_t at, T value) {
    overwrite(at, &value, sizeof value);
  }

  ScratchDirectory scratch_;
  RuntimeDirectory directory_;
};

}  // namespace holdfast::test
