// A dictionary "d" that a program uses as a host does, and what is said where a claim about it does not hold.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "holdfast.h"

namespace late {

inline constexpr std::uint64_t kSize = 1 << 20;
inline holdfast_dict* dict = nullptr;

inline void check(bool well, const char* what) {
  if (well) return;
  std::printf("%s: %s\n", what, holdfast_error());
  std::fflush(stdout);
  _exit(1);
}

inline std::string path_of(const char* file) { return std::string(holdfast_directory()) + "/" + file; }

/// So large that 3000 of them need all of the dictionary.
inline int set(const std::string& key) {
  const std::string value(400, 'v');
  return holdfast_store(dict, HOLDFAST_SET, key.data(), key.size(), HOLDFAST_STRING, value.data(), value.size(), 0, 0,
                        0, nullptr);
}

inline int get(const std::string& key) {
  std::array<char, 512> buffer{};
  holdfast_value value{};
  value.data = buffer.data();
  value.capacity = buffer.size();
  return holdfast_get(dict, key.data(), key.size(), &value);
}

/// Touches all of the dictionary. The code of the last call.
inline int use_all() {
  int code = HOLDFAST_OK;
  for (int i = 0; i < 3000; ++i) {
    code = set("key" + std::to_string(i));
    get("key" + std::to_string(i));
  }
  return code;
}

inline void expect_removed() {
  check(use_all() == HOLDFAST_REMOVED, "use of what is left");
  check(std::strstr(holdfast_error(), "cut short") != nullptr, "its sentence");
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_REMOVED, "no lock is given there");
}

inline void open_dict() {
  const holdfast_options options{kSize, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  check(holdfast_open("d", 1, &options, &dict) == HOLDFAST_OK, "open");
}

inline void begin_anew() {
  holdfast_remove("d", 1);
  open_dict();
  check(use_all() == HOLDFAST_OK, "use of the next one");
}

inline void truncate_to(const char* file, std::uint64_t size) {
  check(::truncate(path_of(file).c_str(), static_cast<off_t>(size)) == 0, "truncate");
}

struct Way {
  const char* name;
  void (*body)();
  void (*before)() = nullptr;  // before the dictionary is opened
};

/// Runs the way of that name: with an open dictionary, and with the guard unless told otherwise.
template <std::size_t n>
int run_way(const std::array<Way, n>& ways, const char* name, bool guarded) {
  for (const Way& way : ways) {
    if (std::strcmp(name, way.name) != 0) continue;
    if (way.before != nullptr) way.before();
    open_dict();
    check(use_all() == HOLDFAST_OK, "use");
    if (guarded) check(holdfast_guard_sigbus() == HOLDFAST_OK && holdfast_guard_sigbus() == HOLDFAST_OK, "guard");
    way.body();
    std::puts("done");
    return 0;
  }
  return 2;
}

}  // namespace late
