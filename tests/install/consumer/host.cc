// A host in C++. It counts its runs in a dictionary that all its processes share, and prints the count.
#include <cstdio>
#include <holdfast.hpp>
#include <mutex>

int main() {
  const auto dict = holdfast::dictionary::open("consumer", {.size = 65536});
  if (!dict) {
    std::fprintf(stderr, "%s\n", dict.error().message.c_str());
    return 1;
  }
  holdfast::mutex mutex(*dict, "runs' lock");
  const std::scoped_lock guard(mutex);
  std::printf("a C++ host counts to %.0f with holdfast %s\n", dict->incr("runs", 1, 0).value(), holdfast_version());
}
