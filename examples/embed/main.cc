// Runs Lua scripts side by side, in one loop. When one waits for a lock, the others go on.
//
//   embed [--dict NAME=SIZE]... SCRIPT...

#include <holdfast.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "loop.h"
#include "scripts.h"

namespace {

constexpr int kFailed = 1;
constexpr int kMisused = 2;

void check(int code) {
  if (code != HOLDFAST_OK) throw std::runtime_error(holdfast_error());
}

/// Scripts find it by its name; so do all other programs.
void open_dictionary(std::string_view declaration) {
  const std::size_t equals = declaration.find('=');
  if (equals == std::string_view::npos) throw std::runtime_error("--dict: NAME=SIZE expected");
  const std::string_view name = declaration.substr(0, equals);
  const std::string_view size = declaration.substr(equals + 1);
  holdfast_options options{};
  check(holdfast_parse_size(size.data(), size.size(), &options.size));
  holdfast_dict* dictionary = nullptr;  // never closed: it lives as long as the process
  check(holdfast_open(name.data(), name.size(), &options, &dictionary));
}

int run(const std::vector<std::string>& arguments) {
  if (holdfast_abi() != HOLDFAST_ABI) throw std::runtime_error("libholdfast is of another ABI than holdfast.h");
  embed::Loop loop;
  embed::Scripts scripts(loop);
  bool any = false;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    if (*argument == "--dict" && argument + 1 != arguments.end()) {
      open_dictionary(*++argument);
    } else {
      scripts.start(*argument);
      any = true;
    }
  }
  if (!any) {
    std::fputs("Usage: embed [--dict NAME=SIZE]... SCRIPT...\n", stderr);
    return kMisused;
  }
  loop.run();
  return scripts.failures() == 0 ? 0 : kFailed;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run({values + 1, values + count});
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "embed: %s\n", failure.what());
    return kFailed;
  }
}
