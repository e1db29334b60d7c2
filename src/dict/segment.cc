#include "dict/segment.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/name.h"
#include "base/parse.h"
#include "dict/fencing.h"
#include "dict/guard.h"
#include "dict/repair.h"
#include "world/file_use.h"
#include "world/name_use.h"
#include "world/world.h"

namespace holdfast {

namespace {

void initialise(DictionaryHeader& header, const Geometry& geometry, const DictionaryOptions& options) {
  header.strategy = static_cast<std::uint32_t>(options.mutex);
  header.shards = geometry.shards;
  header.any_size = options.any_size ? 1 : 0;
  header.stripes = options.versions ? geometry.stripes() : 0;
  header.shards_complement = ~(header.shards ^ header.stripes);
  header.seed = platform::random_number();
  header.seed_complement = ~header.seed;
  name_gate(header.gate, options.gate);
}

/// Describes a dictionary. `size` is 0 if nobody has asked for a size.
std::string describe(std::uint64_t size, MutexStrategy mutex, const std::string& gate, bool versions) {
  return (size != 0 ? "size " + std::to_string(size) + " and mutex " : std::string("mutex ")) + strategy_name(mutex) +
         describe_gate(gate) + (versions ? " and versions" : "");
}

// Returns the error for a damaged dictionary. No process can open it any more, but its file may have to be kept.
Status damaged(const std::string& name, const std::string& what) {
  const std::string quoted = quote_name(name);
  return {Code::corrupt,
          "dictionary " + quoted + " was overwritten: " + what + "; remove it: holdfast rm --force " + quoted};
}

}  // namespace

const char* strategy_name(MutexStrategy strategy) noexcept {
  constexpr std::array<const char*, 3> kNames{"futex", "spin", "file"};
  const auto index = static_cast<std::size_t>(strategy);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string Segment::file_name(const std::string& name) { return encode_name(name) + std::string(kDictionarySuffix); }

static constinit std::atomic<std::uint64_t> last_number{0};

Segment::Segment(World& world, std::string name, MappedFile file, const Traits& traits,
                 std::unique_ptr<RecordLock> record_lock)
    : world_(world),
      name_(std::move(name)),
      mapping_(std::move(file.mapping)),
      name_use_(std::move(file.name_use)),
      traits_(traits),
      record_lock_(std::move(record_lock)),
      statistics_(mapping_.data() + traits_.geometry.size, header().counted_units),
      number_(last_number.fetch_add(1, kRelaxed) + 1) {
  const Geometry& geometry = traits_.geometry;
  shards_.reserve(geometry.shards);
  auto* const bytes_of_shards = reinterpret_cast<Word8*>(mapping_.data() + kHeaderBytes);
  auto* const stripes = reinterpret_cast<Stripe*>(mapping_.data() + geometry.size + kStatisticsBytes);
  const std::uint32_t stripes_each = traits_.versions ? geometry.stripes() : 0;
  for (std::uint32_t i = 0; i < geometry.shards; ++i) {
    std::byte* const at = mapping_.data() + geometry.shards_at + i * geometry.shard_bytes;
    ShmtxState& state = reinterpret_cast<ShardHeader*>(at)->mutex;
    Word8* const opened = geometry.reserved_as_used() ? bytes_of_shards + i : nullptr;
    shards_.emplace_back(at, geometry, Shmtx(state, traits_.strategy, world, record_lock_.get(), i), opened,
                         traits_.versions ? Stripes(stripes + std::size_t{i} * stripes_each, stripes_each) : Stripes());
    shards_.back().set_name(name_.c_str());
  }
  shard_array_ = shards_.data();
}

Expected<std::unique_ptr<Segment>> Segment::make(World& world, const std::string& name, MappedFile file,
                                                 const Traits& traits) {
  std::unique_ptr<RecordLock> record_lock;
  if (traits.strategy == MutexStrategy::file) {
    auto opened = RecordLock::open(world.directory(), file_name(name), file.mapping.file());
    if (!opened) return opened.status();
    record_lock = std::move(*opened);
  }
  std::unique_ptr<Segment> segment(new Segment(world, name, std::move(file), traits, std::move(record_lock)));
  // A larger dictionary reserves the stripes together with the rest of their shard.
  if (!traits.geometry.reserved_as_used() && !segment->shard_at(0).stripes().reserve())
    return Status{Code::no_memory, "dictionary " + quote_name(name) + ": no memory for its versions"};
  return segment;
}

Expected<std::unique_ptr<Segment>> Segment::attach(World& world, const std::string& name) {
  auto used = World::observes() ? look_at_dictionary_file(world.directory(), file_name(name), world.id())
                                : use_dictionary_file(world.directory(), file_name(name), world.id());
  if (!used) return used.status();
  const OpenedFile* const file = &used->file;
  // Check everything in the private copy of the header, and compute the geometry from that copy.
  const auto& header = *reinterpret_cast<const DictionaryHeader*>(file->page->data());
  const std::uint64_t size = dictionary_size(header);
  if (size < kSizeMin || size > kSizeMax || size != round_size(size))
    return damaged(name, "impossible size " + std::to_string(header.file.size));
  if (header.strategy > static_cast<std::uint32_t>(MutexStrategy::file) ||
      header.shards_complement != ~(header.shards ^ header.stripes) || !Geometry::is_possible(size, header.shards))
    return damaged(name, "its header has mutex " + std::to_string(header.strategy) + " and " +
                             std::to_string(header.shards) + " shards, expected mutex 0 to 2 and " +
                             std::to_string(Geometry::of(size).shards) + " shards");
  const Geometry geometry = Geometry::of(size, header.shards);
  if (header.stripes != 0 && header.stripes != geometry.stripes())
    return damaged(name, "its header has " + std::to_string(header.stripes) +
                             " versions for each shard, expected 0 or " + std::to_string(geometry.stripes()));
  const bool versions = header.stripes != 0;
  const auto strategy = static_cast<MutexStrategy>(header.strategy);
  const std::uint64_t seed = header.seed;
  if (header.seed_complement != ~seed)
    return damaged(name, "bad hash seed (processes that have it open can still use it)");
  if (!is_gate_name_sound(header.gate)) return damaged(name, "bad cluster name");
  auto gate = find_gate(name, std::string(holdfast::gate_name(header.gate)));
  if (!gate) return gate.status();
  auto mapping = map_world_file(*file);
  if (!mapping) return mapping.status();
  // A damaged file may have a hole where there must not be one. A file that is reserved as a whole is not checked.
  if (geometry.reserved_as_used() && platform::reserve_pages(mapping->data(), geometry.reserved_at_first()) != 0)
    return Status{Code::no_memory, "dictionary " + quote_name(name) + ": no memory for its header"};
  auto segment =
      make(world, name, {std::move(*mapping), std::move(used->name)}, {geometry, strategy, seed, *gate, versions});
  if (segment && used->adopting != nullptr) {
    if (Status adopted = (*segment)->adopt(*file); !adopted.ok()) return adopted;
  }
  return segment;
}

// Adopts a persistent dictionary of a world that no longer has a process. The owners are unknown in this world, so
// locks and permits become free like those of dead processes. Mutexes, queues and the range of fencing tokens must be
// reset now. If this process is killed, the next process starts again.
Status Segment::adopt(const OpenedFile& file) {
  for (Shard& shard : shards_) {
    if (!shard.open_if_used() || shard.header().in_use.load(kRelaxed) == 0) continue;
    shard.header().mutex.word.store(0, kRelaxed);
    if (!shard.is_mark_known()) shard.follow_mark();
    repair(shard);
  }
  if (gate() != nullptr) gate()->forget(*this);
  // Continue in a range of this world, above all tokens that the other world gave out in this dictionary.
  number_of_new_range(*this, header().sequence.load(kRelaxed), 0);
  return finish_adoption(file, world_.id());
}

Expected<std::unique_ptr<Segment>> Segment::create(World& world, const std::string& name,
                                                   const DictionaryOptions& options) {
  if (World::observes()) return World::refuse_observer();
  const Geometry geometry = Geometry::for_values(options.size, std::max(options.largest, options.declared_largest));
  platform::Mapping name_use;
  DictionaryHeader* header = nullptr;
  auto gate = find_gate(name, options.gate);
  if (!gate) return gate.status();
  // The gate's record of holders ends with the processes that keep it.
  const bool is_kept_behind_gate = options.persist == kKept && *gate != nullptr;
  const std::uint64_t stripes = options.versions ? stripe_bytes(geometry.shards, geometry.stripes()) : 0;
  const NewFile file{FileKind::dictionary,
                     geometry.size + kStatisticsBytes + stripes,
                     is_kept_behind_gate ? kTemporary : options.persist,
                     options.mode,
                     world.id(),
                     [&](std::uint64_t inode) -> Status {
                       auto held = hold_new_name(world.directory(), file_name(name), inode);
                       if (!held) return held.status();
                       name_use = std::move(*held);
                       // Do not take the range earlier. Otherwise, a dictionary with the same name that was made and
                       // removed in the meantime would have larger tokens.
                       initialise_fencing(*header, world.fencing());
                       return {};
                     },
                     geometry.size - geometry.reserved_at_first() + kStatisticsBytes + stripes,
                     kStatisticsBytes};
  // Everything else is zero, as in shards that were never used (ShardHeader::in_use), or a hole, if memory is reserved
  // when it is first used. So making a large dictionary takes no longer than making a small one.
  auto mapping = create_world_file(world.directory(), file_name(name), file, [&](std::byte* base) {
    header = reinterpret_cast<DictionaryHeader*>(base);
    initialise(*header, geometry, options);
  });
  if (!mapping) return mapping.status();
  const std::uint64_t seed = header->seed;
  return make(world, name, {std::move(*mapping), std::move(name_use)},
              {geometry, options.mutex, seed, *gate, options.versions});
}

Expected<std::uint64_t> Segment::present_size(World& world, const std::string& name) {
  auto file = open_world_file(world.directory(), file_name(name), FileKind::dictionary);
  if (!file && file.status().code != Code::not_found) return file.status();
  if (!file) return std::uint64_t{0};
  const std::uint64_t size = dictionary_size(*reinterpret_cast<const DictionaryHeader*>(file->page->data()));
  return size <= kSizeMax ? size : 0;
}

Expected<std::unique_ptr<Segment>> Segment::open(World& world, const std::string& name,
                                                 const DictionaryOptions& options) {
  // If another process has created the segment in the meantime, attach to it. If another process has removed it, create
  // one.
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto existing = attach(world, name);
    if (existing) {
      const Status same = (*existing)->join(name, options);
      if (same.ok()) return existing;
      if (World::observes() || !(*existing)->gives_way()) return same;
      const platform::FileId judged = (*existing)->mapping_.file();
      existing->reset();  // this process no longer uses the existing segment
      const Status retired = retire_unused_file(world.directory(), file_name(name), judged);
      if (retired.code == Code::exists) return same;
      if (!retired.ok()) return retired;
      continue;
    }
    if (existing.status().code != Code::not_found) return existing;
    auto created = create(world, name, options);
    const Code code = created ? Code::ok : created.status().code;
    if (code != Code::exists && code != Code::not_found) return created;  // not_found: the file was already removed
  }
  return Status{Code::busy,
                "dictionary " + quote_name(name) + " keeps being created and removed by other processes; try again"};
}

Expected<platform::FileDescriptor> Segment::keep_use() const {
  if (World::observes()) return World::refuse_observer();
  const RuntimeDirectory::Visit visit(world_.directory());
  auto kept = keep_dictionary_file(world_.directory(), file_name(name_), world_.id(), mapping_.file().inode);
  if (retired()) return Status{Code::removed, "dictionary " + quote_name(name_) + " was removed"};
  return kept;
}

bool Segment::has_size(const DictionaryOptions& options) const noexcept {
  return options.any_size || serves_size(traits_.geometry.size, header().any_size != 0, options.size);
}

// Extends the lifetime of the file: if several processes open a dictionary, the longest requested lifetime counts.
// Relaxed is enough, because the word is read from the file when no process uses the file any more.
void Segment::raise_life(std::uint32_t persist) noexcept {
  const auto rank = [](std::uint32_t life) { return life == kTemporary ? 0 : life == kKept ? 1 : 2; };
  if (persist == kKept && gate() != nullptr) return;
  std::atomic<std::uint32_t>& word = header().file.persist;
  std::uint32_t seen = word.load(std::memory_order_relaxed);
  while (rank(seen) < rank(persist) && !word.compare_exchange_weak(seen, persist, std::memory_order_relaxed)) {
  }
}

bool Segment::gives_way() const noexcept {
  const std::uint32_t persist = header().file.persist;
  return persist == kKept || (persist != kPersistent && header().any_size != 0);
}

std::uint64_t Segment::settle(Shard& shard, const Stripe& stripe) const noexcept {
  constexpr int kPauses = 32;  // a change takes some nanoseconds
  for (int i = 0; i < kPauses && !is_settled_version(version_of(stripe)); ++i) platform::cpu_relax();
  if (!is_settled_version(version_of(stripe))) {
    const ShardGuard guard(shard, 0);
  }
  return version_of(stripe);
}

bool Segment::has_traits(const DictionaryOptions& options) const noexcept {
  return has_size(options) && traits_.strategy == options.mutex && gate_name() == options.gate &&
         (has_versions() || !options.versions);
}

Status Segment::join(const std::string& name, const DictionaryOptions& options) {
  const bool is_same = has_traits(options);
  const std::uint64_t most = traits_.geometry.value_max();
  if (is_same && options.largest <= most) {
    if (!World::observes()) raise_life(options.persist);
    return {};
  }
  const std::string quoted = quote_name(name);
  const std::string difference =
      is_same ? "and takes values of at most " + std::to_string(most) + " bytes, but the caller requested " +
                    std::to_string(options.largest)
              : "with " + describe(traits_.geometry.size, traits_.strategy, gate_name(), has_versions()) +
                    ", but the caller requested " +
                    describe(options.any_size ? 0 : round_size(options.size), options.mutex, options.gate,
                             options.versions);
  const bool persists = header().file.persist == kPersistent;
  return {Code::mismatch,
          "dictionary " + quoted + " exists " + difference + "; open it with the same options, or " +
              (persists ? "remove it: holdfast rm " + quoted : std::string("end all programs that use it"))};
}

}  // namespace holdfast
