#include "crash/victim.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "dict/expiry.h"
#include "dict/key.h"
#include "platform/platform.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast::crash {

namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "crash: %s: %s\n", what, holdfast_error());
  std::exit(2);
}

std::string path_of(const std::string& name) { return std::string(holdfast_directory()) + "/" + name + ".dict"; }

/// A copy of a dictionary is valid only if its header names the copy's own inode.
void name_own_inode(const std::string& path) {
  const platform::FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  platform::FileId id;
  demand(fd && platform::file_id(fd.get(), id) == 0 &&
             ::pwrite(fd.get(), &id.inode, sizeof id.inode, offsetof(FileHeader, inode)) == sizeof id.inode,
         "cannot write into a copy");
}

ShardHeader& shard_header(Image& image) { return *reinterpret_cast<ShardHeader*>(image.data() + kHeaderBytes); }

/// Reads the elements of a list in order, each with its type and size. Returns false if the list is shorter than its
/// length says.
bool read_list_of(const Shard& shard, const Key& key, const ListEnds& ends, std::string& elements) {
  std::uint32_t block = ends.first;
  for (std::uint32_t i = 0; i < ends.length; ++i) {
    EntryView view{};
    if (!shard.inspect(block, view) || view.type != EntryType::node) return false;
    const auto& node = *reinterpret_cast<const ListNode*>(view.entry);
    if (node.hash.load(kRelaxed) != key.short_hash()) return false;
    elements += std::to_string(node.shape.load(kRelaxed) >> 24) + ":" + std::to_string(view.value_size) + ":";
    elements.append(reinterpret_cast<const char*>(&node + 1), view.value_size);
    block = node.next.load(kRelaxed);
  }
  return true;
}

std::vector<Token>& disregarded() {
  static std::vector<Token> tokens;
  return tokens;
}

std::string text_of(const EntryView& holder) {
  return {reinterpret_cast<const char*>(&holder.holder() + 1), holder.value_size - sizeof(HolderFields)};
}

/// Reads the information about a held lock.
std::string read_reason_of(const Shard& shard, const Key& key, std::uint64_t sequence) {
  Position position{};
  EntryView record{};
  if (!shard.find(key, position) || position.block == 0 || position.view.type != EntryType::lock ||
      !shard.inspect(position.view.lock().reason.load(kRelaxed), record) || record.type != EntryType::holder ||
      record.holder().sequence.load(kRelaxed) != sequence)
    return "";
  return text_of(record);
}

/// Reads the valid holders of permits. Returns false on damage.
bool read_holders_of(const Shard& shard, const Key& key, std::uint32_t flush, std::uint64_t start_ns, Seen& seen) {
  Position position{};
  if (!shard.find(key, position) || position.block == 0 || position.view.type != EntryType::permits) return false;
  std::uint32_t block = position.view.permits().holders.load(kRelaxed);
  for (std::uint32_t steps = 0; block != 0; ++steps) {
    EntryView holder{};
    if (steps == shard.granules() || !shard.inspect(block, holder) || holder.type != EntryType::holder ||
        holder.entry->hash.load(kRelaxed) != key.short_hash())
      return false;
    block = holder.entry->next.load(kRelaxed);
    const HolderFields& fields = holder.holder();
    const std::uint64_t expiry = holder.entry->expiry.load(kRelaxed);
    const std::uint64_t end = expiry_ms(expiry);
    const Token owner = fields.owner.load(kRelaxed);
    if ((expiry & kFlushMask) != flush || (end != kExpiryNever && end * 1'000'000 <= start_ns) ||
        std::count(disregarded().begin(), disregarded().end(), owner) != 0)
      continue;
    ++seen.bits;
    seen.sequence = std::max(seen.sequence, fields.sequence.load(kRelaxed));
    for (const std::uint64_t word :
         {owner, fields.sequence.load(kRelaxed), end, std::uint64_t{fields.count.load(kRelaxed)}})
      seen.text += std::to_string(word) + ":";
    seen.text += text_of(holder) + ";";
  }
  return true;
}

Seen look(const Shard& shard, const Key& key, std::uint32_t flush, std::uint64_t start_ns) {
  static std::string buffer(kBufferBytes, '\0');
  ValueOut out{};
  out.buffer = buffer.data();
  out.capacity = buffer.size();
  Seen seen;
  const Shard::Read result = shard.read(key, out);
  if (result == Shard::Read::torn || result == Shard::Read::damaged || result == Shard::Read::no_room) {
    seen.kind = Seen::Kind::torn;
    return seen;
  }
  if (result == Shard::Read::missing) return seen;
  // A grant does not count if its owner died before completing it.
  if (out.type == EntryType::lock && out.incomplete) return seen;
  const std::uint64_t end = expiry_ms(out.expiry);
  if ((out.expiry & kFlushMask) != flush || (end != kExpiryNever && end * 1'000'000 <= start_ns)) return seen;
  seen.kind = is_holdable(out.type) ? Seen::Kind::lock : Seen::Kind::value;
  seen.type = out.type;
  if (out.type == EntryType::permits) {  // the entry's expiry is derived from its holders'
    if (!read_holders_of(shard, key, flush, start_ns, seen)) seen.kind = Seen::Kind::torn;
    return seen.bits != 0 || seen.kind == Seen::Kind::torn ? seen : Seen{};
  }
  seen.expiry_ms = end;
  if (out.type != EntryType::list) seen.flags = out.flags;
  if (out.type == EntryType::string) {
    seen.text.assign(out.buffer, out.size);
  } else if (out.type == EntryType::list) {
    const ListEnds ends = ListEnds::of(out.bits, 0);
    seen.bits = ends.length;
    if (!read_list_of(shard, key, ends, seen.text)) seen.kind = Seen::Kind::torn;
  } else {
    seen.bits = out.bits;
    if (out.type == EntryType::lock) {
      seen.sequence = out.sequence;
      seen.text = read_reason_of(shard, key, out.sequence);
    }
  }
  return seen;
}

}  // namespace

std::string describe(const Seen& seen) {
  switch (seen.kind) {
    case Seen::Kind::missing:
      return "missing";
    case Seen::Kind::torn:
      return "torn";
    case Seen::Kind::lock:
      return "lock or permits of " + std::to_string(seen.bits) + ", sequence " + std::to_string(seen.sequence) +
             ", until " + std::to_string(seen.expiry_ms) + " \"" + seen.text + "\"";
    case Seen::Kind::value:
      break;
  }
  return "type " + std::to_string(static_cast<int>(seen.type)) + " bits " + std::to_string(seen.bits) + " flags " +
         std::to_string(seen.flags) + " until " + std::to_string(seen.expiry_ms) + " text of " +
         std::to_string(seen.text.size()) + " \"" + seen.text.substr(0, 24) + "\"";
}

std::string difference(const WatchState& expected, const WatchState& found) {
  for (const auto& [key, seen] : expected) {
    const auto there = found.find(key);
    if (there == found.end()) return key + " was not read";
    if (there->second != seen) return key + ": expected " + describe(seen) + "; found " + describe(there->second);
  }
  return "";
}

// The hash seed is random, and a process reads it when it opens the file. So `hash_seed` is written into a template,
// and both files are copies of this template.
Victim::Victim(std::uint64_t size, std::uint64_t hash_seed, bool versions)
    : size_(round_size(size)), image_size_(size_) {
  static int count = 0;
  const std::string number = std::to_string(++count);
  const std::string template_name = "template-" + number;
  test::Dict blank(template_name, {.size = size, .versions = versions});
  demand(blank.status == HOLDFAST_OK, "cannot create a dictionary");
  demand(blank.segment().geometry().shards == 1, "an image must contain a single shard");
  blank.segment().header().seed = hash_seed;
  blank.segment().header().seed_complement = ~hash_seed;
  const auto copy_of = [&](const std::string& name) {
    std::filesystem::copy_file(path_of(template_name), path_of(name));
    name_own_inode(path_of(name));
    auto dict = std::make_unique<test::Dict>(name, test::Options{.size = size, .versions = versions});
    demand(dict->status == HOLDFAST_OK, "cannot open a copy");
    demand(dict->segment().seed() == hash_seed, "another dictionary was opened instead of a copy");
    return dict;
  };
  dict_ = copy_of("victim-" + number);
  judged_ = copy_of("judged-" + number);
  holdfast_remove(template_name.data(), template_name.size());
  if (versions) image_size_ = segment().header().file.size;
  bare_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, size_)));
  const Shmtx unused(reinterpret_cast<ShardHeader*>(bare_.get() + kHeaderBytes)->mutex, MutexStrategy::futex,
                     **World::current(), nullptr, 0);
  bare_shard_ = std::make_unique<Shard>(bare_.get() + kHeaderBytes, segment().geometry(), unused);
}

void Victim::disregard(Token dead) { disregarded().push_back(dead); }

void Victim::put(const Image& image, test::Dict& where) const {
  std::memcpy(static_cast<void*>(&where.segment().header()), image.data(), size());
}

WatchState Victim::see(const Image& image, const std::vector<std::string>& keys, std::uint64_t start_ns) {
  std::memcpy(bare_.get(), image.data(), size_);
  const auto& header = *reinterpret_cast<const DictionaryHeader*>(image.data());
  const std::uint32_t flush = header.flush_epoch.load(kRelaxed) & kFlushMask;
  WatchState view;
  for (const std::string& key : keys) view[key] = look(*bare_shard_, Key(key, segment().seed()), flush, start_ns);
  return view;
}

WatchState Victim::see_judged(const std::vector<std::string>& keys, std::uint64_t start_ns) {
  Segment& segment = judged_->segment();
  WatchState view;
  for (const std::string& key : keys)
    view[key] = look(segment.shards()[0], Key(key, segment.seed()), segment.flush_epoch(), start_ns);
  return view;
}

std::uint64_t Victim::sequence_of(const Image& image) {
  return reinterpret_cast<const DictionaryHeader*>(image.data())->sequence.load(kRelaxed);
}

std::uint64_t Victim::evictions_of(const Image& image) {
  return reinterpret_cast<const ShardHeader*>(image.data() + kHeaderBytes)->evictions.load(kRelaxed);
}

bool Victim::is_locked(const Image& image) const {
  return reinterpret_cast<const ShardHeader*>(image.data() + kHeaderBytes)->mutex.word.load(kRelaxed) != 0;
}

std::uint64_t Victim::version_in(const Image& image, const std::string& key) {
  const auto* const stripes = reinterpret_cast<const Stripe*>(image.data() + size_ + kStatisticsBytes);
  const auto& header = *reinterpret_cast<const DictionaryHeader*>(image.data());
  const std::uint32_t stripe = segment().stripe_number(Key(key, segment().seed()).hash);
  return 2 * std::uint64_t{header.flush_epoch.load(kRelaxed)} + stripes[stripe].version.load(kRelaxed);
}

Image Victim::normalised(Image image) const {
  if (image.size() > size_)
    std::fill(image.begin() + static_cast<std::ptrdiff_t>(size_ + kStatisticsBytes), image.end(), std::byte{0});
  shard_header(image).reuse_epoch.store(0, kRelaxed);
  shard_header(image).repairs.store(0, kRelaxed);
  return image;
}

std::uint32_t Victim::bucket_of(const std::string& key) {
  return Key(key, segment().seed()).short_hash() & (segment().geometry().buckets - 1);
}

}  // namespace holdfast::crash
