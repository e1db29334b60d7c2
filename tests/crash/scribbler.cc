#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "crash/hostile.h"
#include "damage/all_calls.h"
#include "dict/expiry.h"
#include "world/world.h"

namespace holdfast::crash {

// Mostly returns the number of an existing granule, because other numbers are detected immediately.
std::uint32_t Scribbler::bad_word(std::uint32_t granules) {
  switch (random_() % 5) {
    case 0:
      return static_cast<std::uint32_t>(random_());
    case 1:
      return static_cast<std::uint32_t>(random_() % 70);
    case 2:
      return 0xFFFFFFFF - static_cast<std::uint32_t>(random_() % 3);
    default:
      return static_cast<std::uint32_t>(random_() % granules);
  }
}

void Scribbler::scribble_anywhere(Segment& segment) {
  const std::size_t body = segment.geometry().size - kHeaderBytes;
  auto* const words = reinterpret_cast<Word32*>(reinterpret_cast<std::byte*>(&segment.header()) + kHeaderBytes);
  Word32& word = words[random_() % (body / 4)];
  if (random_() % 2 == 0)
    word.store(word.load(kRelaxed) ^ 1U << random_() % 32, kRelaxed);
  else
    word.store(bad_word(segment.geometry().granules), kRelaxed);
}

// Overwrites a word of a list's value, or of one of its nodes.
void Scribbler::scribble_list(Shard& shard, const EntryView& list) {
  Word64& word = list.list().word;
  ListEnds ends = list.list_ends();
  std::uint32_t block = ends.first;
  for (std::uint64_t steps = random_() % 4; steps != 0 && shard.holds_header(block); --steps)
    block = shard.words32(block)[0].load(kRelaxed);
  if (random_() % 3 != 0 && shard.holds_header(block)) {
    // Mostly sets the link to a real node.
    const std::uint32_t bad = random_() % 2 == 0 ? ends.last : bad_word(shard.granules());
    shard.words32(block)[random_() % (sizeof(ListNode) / 4)].store(bad, kRelaxed);
    return;
  }
  std::uint32_t* const fields[] = {&ends.first, &ends.last, &ends.length};
  *fields[random_() % 3] = random_() % 2 == 0 ? block : bad_word(shard.granules());
  word.store(random_() % 8 == 0 ? random_() : ends.word(), kRelaxed);
  list.entry->flags.store(ends.last, kRelaxed);
}

// Overwrites a link to a holder, a shortcut, or another word of a holder.
void Scribbler::scribble_holder(Shard& shard, const EntryView& holdable) {
  if (holdable.type == EntryType::permits && random_() % 4 == 0) {
    PermitFields& permits = holdable.permits();
    const std::uint32_t holder = permits.holders.load(kRelaxed);
    permits.shortcuts[random_() % kShortcuts].store(random_() % 2 == 0 ? holder : bad_word(shard.granules()), kRelaxed);
    return;
  }
  Word32* link = holdable.type == EntryType::lock ? &holdable.lock().reason : &holdable.permits().holders;
  for (std::uint64_t steps = random_() % 4; steps != 0 && shard.holds_header(link->load(kRelaxed)); --steps)
    link = &shard.entry(link->load(kRelaxed)).next;
  const std::uint32_t block = link->load(kRelaxed);
  constexpr std::size_t kWords = (sizeof(Entry) + sizeof(HolderFields)) / 4;
  if (random_() % 3 != 0 && block - 1 < shard.granules() - kWords) {
    // Mostly sets the link to a real holder.
    const std::uint32_t bad = random_() % 2 == 0 ? block : bad_word(shard.granules());
    shard.words32(block)[random_() % kWords].store(bad, kRelaxed);
    return;
  }
  link->store(bad_word(shard.granules()), kRelaxed);
}

// Follows a chain and overwrites a word of an entry, of its lock or list, or of its waiters or holders.
void Scribbler::scribble_entry(Shard& shard) {
  Word32* link = &shard.bucket(static_cast<std::uint32_t>(random_() % shard.buckets()));
  for (std::uint64_t steps = random_() % 3; steps != 0 && shard.holds_header(link->load(kRelaxed)); --steps)
    link = &shard.entry(link->load(kRelaxed)).next;
  const std::uint32_t block = link->load(kRelaxed);
  EntryView view{};
  if (random_() % 6 == 0 || !shard.inspect(block, view)) {
    link->store(bad_word(shard.granules()), kRelaxed);
    return;
  }
  if (view.type == EntryType::list && random_() % 2 == 0) return scribble_list(shard, view);
  if (is_holdable(view.type) && random_() % 2 == 0) return scribble_holder(shard, view);
  // Chooses a word of the header, the key or the value. Half of the choices are one of the header's four words.
  const std::uint32_t words = view.granules * kGranule / 4;
  const bool in_header = random_() % 2 == 0 || words <= 8;
  shard.words32(block)[in_header ? random_() % 8 : 8 + random_() % (words - 8)].store(bad_word(shard.granules()),
                                                                                      kRelaxed);
}

void Scribbler::scribble_header(Segment& segment, Shard& shard) {
  switch (random_() % 40) {
    case 0:
      segment.header().flush_epoch.store(
          random_() % 2 == 0 ? kFlushMask / 2 - 1 : static_cast<std::uint32_t>(random_()), kRelaxed);
      return;
    case 1:
      segment.header().sequence.store(random_(), kRelaxed);
      return;
    case 2:
      if (random_() % 100 == 0)
        segment.header().file.retired.store(static_cast<std::uint32_t>(random_() % 3), kRelaxed);
      return;
    case 3:
    case 4:
      // Mostly sets the mutex to free. A random word may name a live process that does not hold the mutex, and delays
      // all writers until they notice.
      shard.header().mutex.word.store(random_() % 8 == 0 ? random_() : 0, kRelaxed);
      return;
    default:
      break;
  }
  // Spares the mutex, which is in the first 64 bytes.
  auto* const words = reinterpret_cast<Word32*>(&shard.header());
  words[16 + random_() % (sizeof(ShardHeader) / 4 - 16)].store(bad_word(shard.granules()), kRelaxed);
}

void Scribbler::scribble() {
  Segment* const segment = dict_.dictionary().segment(EpochGuard());
  if (segment == nullptr) {  // this process has noticed that the dictionary was retired
    const std::string name = dict_.dictionary().name();
    const holdfast_options options{size_, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    holdfast_open(name.data(), name.size(), &options, &dict_.handle);
    return;
  }
  Shard& shard = segment->shards()[random_() % segment->shards().size()];
  if (shard.granules() == 0) return scribble_anywhere(*segment);  // this process has not used the shard yet
  switch (random_() % 4) {
    case 0:
      return scribble_anywhere(*segment);
    case 1:
      return scribble_header(*segment, shard);
    default:
      return scribble_entry(shard);
  }
}

namespace {

std::vector<char> read_file(const std::string& path) {
  std::vector<char> bytes;
  const platform::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  ::fstat(fd.get(), &info);
  bytes.resize(static_cast<std::size_t>(info.st_size));
  if (::pread(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes.clear();
  return bytes;
}

void write_file(const std::string& path, const std::vector<char>& bytes) {
  const platform::FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::perror(path.c_str());
}

class Damage {
 public:
  Damage(std::vector<char> good, std::uint64_t seed) : good_(std::move(good)), random_(seed) {}

  std::vector<char> next() {
    std::vector<char> bytes = good_;
    // The header is in the first bytes. The rest of the page is empty.
    if (random_() % 3 != 0) damage(bytes, 0, 256, 1 + random_() % 3);
    if (random_() % 3 == 0) damage(bytes, kHeaderBytes, bytes.size() - kHeaderBytes, random_() % 2000);
    if (random_() % 6 == 0) bytes.resize(random_() % (2 * good_.size()));
    return bytes;
  }

 private:
  void damage(std::vector<char>& bytes, std::size_t from, std::size_t count, std::uint64_t changes) {
    for (; changes != 0; --changes) {
      char& byte = bytes[from + random_() % count];
      byte = random_() % 2 == 0 ? static_cast<char>(random_()) : static_cast<char>(byte ^ 1 << random_() % 8);
    }
  }

  std::vector<char> good_;
  std::mt19937_64 random_;
};

}  // namespace

std::uint64_t open_damaged_files(std::uint64_t count, std::uint64_t seed, Violations& violations) {
  auto world = World::current();
  test::Dict good("good");
  for (int i = 0; i < 30; ++i) good.set("key-" + std::to_string(i), std::string(static_cast<std::size_t>(i * 20), 'v'));
  Damage damage(read_file((*world)->directory().path_of("good.dict")), seed);
  const std::string path = (*world)->directory().path_of("bad.dict");
  std::uint64_t opened = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    ::unlink(path.c_str());
    write_file(path, damage.next());
    auto dictionary = Dictionary::open(**world, "bad", {});
    if (dictionary) {
      ++opened;
      damage::use_all(**dictionary, std::array{"key-1", "key-2", "a"}, [](const char*, auto&& call) { (void)call(); });
    } else if (dictionary.status().message.empty()) {
      violations.add("a damaged file is refused without a message; code %d",
                     static_cast<int>(dictionary.status().code));
    }
  }
  return opened;
}

}  // namespace holdfast::crash
