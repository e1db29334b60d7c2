// Uses holdfast.hpp in a host built without exceptions and without run-time type information. Exits with 0 on success.
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <holdfast.hpp>
#include <mutex>
#include <string>

namespace {

bool use() {
  const holdfast::result<holdfast::dictionary> dict = holdfast::dictionary::open("d", {.size = 65536});
  if (!dict) return false;
  holdfast::mutex one(*dict, "k");
  holdfast::shared_mutex rw(*dict, "rw");
  const std::scoped_lock guard(one, rw);
  return dict->set("n", 1) && dict->incr("n", 1).value() == 2 &&
         dict->lock("k", holdfast::duration(0)).error().code == holdfast::errc::locked;
}

}  // namespace

int main() {
  std::string path = "/dev/shm/holdfast-cpp.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr || ::setenv("HOLDFAST_DIR", path.c_str(), 1) != 0) return 2;
  const bool went_well = use();
  if (!went_well) std::fprintf(stderr, "%s\n", holdfast_error());
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  return went_well ? 0 : 1;
}
