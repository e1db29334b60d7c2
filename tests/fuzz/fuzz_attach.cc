// The input is a file with the name of a dictionary or of the process table: arbitrary bytes, or a valid file with a
// changed size and changed words. The library must either refuse the file with a message, or be able to use it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <vector>

#include "damage/all_calls.h"
#include "damage/box.h"
#include "fuzz/world_of_one.h"
#include "world/process_table.h"

namespace holdfast::fuzz {
namespace {

constexpr std::uint64_t kSize = 12288;
constexpr std::size_t kSizeMax = 1 << 20;

using Bytes = std::vector<char>;

void write_file(const std::string& path, const Bytes& bytes) {
  ::unlink(path.c_str());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::perror("write");
  ::close(fd);
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The contents of the valid files, and a folder for the process table of a different world.
struct Templates {
  Templates() {
    World& world = world_of_one();
    damage::Box box(kSize);
    dictionary = read_file(world.directory().path_of(box.dict().dictionary().name() + ".dict"));
    table = read_file(world.directory().path_of("processes"));
    folder = world.directory().path_of("other");
    ::mkdir(folder.c_str(), 0700);
  }
  Bytes dictionary;
  Bytes table;
  std::string folder;
};

Bytes changed(Bytes bytes, Input& input) {
  const auto size = input.take<std::uint32_t>();
  while (!input.empty()) {
    // Most words that decide whether a file is accepted are in the header page.
    const auto where = input.take<std::uint16_t>();
    const std::size_t words = where % 2 == 0 ? 128 : bytes.size() / 4;
    const auto value = input.take<std::uint32_t>();
    std::memcpy(bytes.data() + std::size_t{where} / 2 % words * 4, &value, sizeof value);
  }
  if (size % 4 == 1) bytes.resize(size / 4 % kSizeMax);
  return bytes;
}

void open_dictionary(World& world, const Bytes& bytes) {
  write_file(world.directory().path_of("bad.dict"), bytes);
  auto opened = call_limit()("open", [&] { return Dictionary::open(world, "bad", {}); });
  if (opened)
    damage::use_all(**opened, std::array{"text 1", "number 1", "list", "theirs"}, call_limit());
  else
    require(!opened.status().message.empty(), "a dictionary is refused without a message");
}

void open_table(const std::string& folder, const Bytes& bytes) {
  write_file(folder + "/processes", bytes);
  auto directory = RuntimeDirectory::at(folder);
  if (!directory) fail(directory.status().message);
  auto table = call_limit()("open", [&] { return ProcessTable::open(*directory); });
  if (!table) return require(!table.status().message.empty(), "a table is refused without a message");
  call_limit()("held_slots", [&] { return table->held_slots(); });
  call_limit()("judge", [&] {
    std::uint64_t known = 0;
    for (const std::uint32_t slot : {0U, 1U, kSlots - 1, kSlots, ~0U})
      known += table->judge(slot, 1) == Liveness::alive ? 1 : 0;
    return known + table->generation_of_slot(0) + table->generation_of_slot(kSlots - 1);
  });
  std::string names;
  for (std::uint32_t slot = 0; slot < kSlots; slot += 97) names += comm_of(table->slot(slot));
}

}  // namespace
}  // namespace holdfast::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast::fuzz;
  static const Templates templates;
  Input input(data, size);
  const auto how = input.take<std::uint8_t>();
  const bool is_table = (how & 2) != 0;
  Bytes bytes;
  if ((how & 1) != 0) {
    const std::string raw = input.rest();
    bytes.assign(raw.begin(), raw.end());
  } else {
    bytes = changed(is_table ? templates.table : templates.dictionary, input);
  }
  if (is_table)
    open_table(templates.folder, bytes);
  else
    open_dictionary(world_of_one(), bytes);
  return 0;
}
