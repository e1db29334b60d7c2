// A host in C++: counts in a dictionary that it shares with everybody, and says what it sees.
#include <holdfast.h>

#include <cstdio>
#include <string_view>

int main() {
  constexpr std::string_view name = "consumer";
  constexpr std::string_view key = "runs";
  constexpr holdfast_options options{
      .size = 65536, .mutex = HOLDFAST_MUTEX_FUTEX, .persist = 0, .mode = 0, .cluster = nullptr};

  if (holdfast_abi() != HOLDFAST_ABI) {
    std::fprintf(stderr, "built for ABI %d, the library has %u\n", HOLDFAST_ABI, holdfast_abi());
    return 1;
  }
  holdfast_dict* dict = nullptr;
  double runs = 0;
  if (holdfast_open(name.data(), name.size(), &options, &dict) != HOLDFAST_OK ||
      holdfast_incr(dict, key.data(), key.size(), 1, 1, 0, 0, &runs, nullptr) != HOLDFAST_OK) {
    std::fprintf(stderr, "%s\n", holdfast_error());
    return 1;
  }
  std::printf("a C++ host counts to %.0f with holdfast %s\n", runs, holdfast_version());
}
