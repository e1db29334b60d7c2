#include "dict/registry.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/name.h"
#include "base/parse.h"
#include "dict/layout.h"
#include "dict/segment.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/file_use.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

/// Returns whether the file is a dictionary that open() can open, or for which open() returns an error other than
/// not_found. A temporary dictionary of another world that no process uses does not count.
bool is_dictionary(const World& world, const std::string& file) {
  auto opened = World::observes() ? look_at_world_file(world.directory(), file, FileKind::dictionary)
                                  : open_world_file(world.directory(), file, FileKind::dictionary);
  if (!opened) return opened.status().code != Code::not_found;
  const bool is_for_us = opened->header().world == world.id() || opened->header().persist != kTemporary;
  return is_for_us || platform::has_record_locks(opened->fd.get());
}

}  // namespace

Expected<std::vector<std::string>> dictionary_names(World& world) {
  const std::string& path = world.directory().path();
  const platform::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::string> names;
  const auto visit = [&](const std::string& file) {
    if (auto name = dictionary_of_file(file); name && is_dictionary(world, file)) names.push_back(std::move(*name));
    return true;
  };
  if (const int error = fd ? platform::list_directory(fd.get(), visit) : errno)
    return Status{Code::system, "cannot read " + path + ": " + platform::error_text(error)};
  std::sort(names.begin(), names.end());
  return names;
}

Registry& Registry::get() {
  alignas(Registry) static std::byte storage[sizeof(Registry)];
  static auto* const registry = new (storage) Registry;
  return *registry;
}

// Create the registry when the library is loaded. Otherwise, a child that is forked while another thread creates it
// would wait forever for that thread.
[[maybe_unused]] const bool kRegistryMade = (Registry::get(), true);

Expected<Dictionary*> Registry::open_locked(const std::string& name, const DictionaryOptions& options) {
  auto world = World::current();
  if (!world) return world.status();
  const RuntimeDirectory::Visit visit((*world)->directory());
  auto handle = Dictionary::open(**world, name, options);
  if (!handle) return handle.status();
  const platform::ForkGuard no_fork;  // a child must not find a half-changed map
  return (dictionaries_[name] = std::move(*handle)).get();
}

// Returns advice for the message that the option "largest" is too large.
static std::string size_for(std::uint64_t largest) {
  if (largest > kValueMax) return "no dictionary takes more than " + std::to_string(kValueMax);
  // A dictionary of one shard needs less than a tenth of its memory for other purposes than values.
  return "a size of " + std::to_string(round_size(largest + largest / 8 + kSizeMin)) + " is enough";
}

static Status check_largest(const std::string& name, std::uint64_t size, std::uint64_t largest) {
  const std::uint64_t most = Geometry::for_values(size, largest).value_max();
  if (largest <= most) return {};
  return {Code::invalid, "bad largest value " + std::to_string(largest) + " for dictionary " + quote_name(name) +
                             ": a dictionary of " + std::to_string(size) + " bytes takes values of at most " +
                             std::to_string(most) + " bytes; " + size_for(largest)};
}

static Status check_declared(Dictionary& dictionary, const std::string& declared) {
  const EpochGuard inside;
  const Segment* const segment = dictionary.segment(inside);
  return segment == nullptr ? Status{} : check_gate(dictionary.name(), segment->gate_name(), declared);
}

static Status bad_declaration(const std::string& name) {
  return {Code::invalid, "bad size for dictionary " + quote_name(name) + " in HOLDFAST_DICTS: expected at least " +
                             std::to_string(kSizeMin) + " bytes (12k)"};
}

// Returns the declaration in $HOLDFAST_DICTS, or not_found if there is none.
static Expected<Declaration> find_declared(const std::string& name) {
  const char* declarations = ::secure_getenv("HOLDFAST_DICTS");
  return find_declaration(declarations != nullptr ? declarations : "", name);
}

// Makes way for the declared dictionary: removes a kept dictionary that has another size, or accepts only smaller
// values, unless a process uses it.
static Status make_way(const std::string& name, const Declaration& declared) {
  if (World::observes()) return {};
  auto world = World::current();
  if (!world) return world.status();
  const RuntimeDirectory& directory = (*world)->directory();
  const std::string file_name = Segment::file_name(name);
  platform::FileId id;
  {
    auto file = open_world_file(directory, file_name, FileKind::dictionary);
    if (!file) return file.status().code == Code::not_found ? Status{} : file.status();
    const auto& header = *reinterpret_cast<const DictionaryHeader*>(file->page->data());
    const std::uint64_t size = dictionary_size(header);
    const bool has_size = serves_size(size, header.any_size != 0, declared.bytes);
    const bool is_sound = size >= kSizeMin && size <= kSizeMax && Geometry::is_possible(size, header.shards);
    const bool has_room = !is_sound || Geometry::of(size, header.shards).value_max() >= declared.largest;
    if (header.file.persist != kKept || (has_size && has_room)) return {};
    id = file->id;
  }
  Status retired = retire_unused_file(directory, file_name, id);
  return retired.code == Code::exists ? Status{} : retired;
}

// Chooses the size for a caller that does not ask for one: the size of the dictionary that exists or is declared, or
// else the default. A declared dictionary ends with its world.
Status Registry::choose_size(const std::string& name, DictionaryOptions& options) {
  auto declared = find_declared(name);
  if (!declared && declared.status().code != Code::not_found) return declared.status();
  if (declared && declared->bytes < kSizeMin) return bad_declaration(name);
  const auto is_open_here = [&] {
    const platform::LongMutex::Hold lock(mutex_);
    const auto known = dictionaries_.find(name);
    return known != dictionaries_.end() && known->second->capacity() != 0;
  };
  if (declared && !is_open_here() && check_largest(name, declared->bytes, declared->largest).ok())
    if (Status way = make_way(name, *declared); !way.ok()) return way;
  const auto present = present_size(name);
  if (!present) return present.status();
  options.any_size = *present != 0 || !declared;
  options.size = *present != 0 ? *present : declared ? declared->bytes : kSizeDefault;
  if (declared && options.persist == kKept) options.persist = kTemporary;
  return {};
}

Expected<std::uint64_t> Registry::present_size(const std::string& name) {
  const platform::LongMutex::Hold lock(mutex_);
  const auto known = dictionaries_.find(name);
  if (known != dictionaries_.end())
    if (const std::uint64_t size = known->second->capacity(); size != 0) return size;
  const auto world = World::current();
  if (!world) return world.status();
  return Segment::present_size(**world, name);
}

Expected<Dictionary*> Registry::open(const std::string& name, DictionaryOptions options) {
  const Status bad = check_name(name);
  if (!bad.ok()) return bad;
  const bool asks_for_size = options.size != 0;
  if (!asks_for_size)
    if (Status chosen = choose_size(name, options); !chosen.ok()) return chosen;
  if (options.size < kSizeMin || options.size > kSizeMax)
    return Status{Code::invalid, "bad size " + std::to_string(options.size) + " for dictionary " + quote_name(name) +
                                     ": expected at least " + std::to_string(kSizeMin) + " bytes (12k), at most " +
                                     kSizeMaxText};
  // The dictionary may be declared with this size, and the program may not know the declaration.
  if (auto known = find_declared(name); known && round_size(known->bytes) == round_size(options.size))
    options.declared_largest = known->largest;
  if (Status large = check_largest(name, options.size, std::max(options.largest, options.declared_largest));
      !large.ok())
    return large;
  auto declared = declared_cluster(name);
  if (!declared) return declared.status();
  if (Status other = choose_gate(name, options.gate, *declared); !other.ok()) return other;
  // If the cluster contradicts the existing dictionary, return the message of attach(), which names both clusters.
  if (!asks_for_size && !declared->empty())
    if (const auto known = attach(name); !known && known.status().code == Code::mismatch) return known.status();
  const platform::LongMutex::Hold lock(mutex_);
  const auto known = dictionaries_.find(name);
  if (known == dictionaries_.end()) return open_locked(name, options);
  Dictionary* dictionary = known->second.get();
  const Status status = dictionary->reopen(options);
  if (!status.ok()) return status;
  return dictionary;
}

Expected<Dictionary*> Registry::attach(const std::string& name) {
  const Status bad = check_name(name);
  if (!bad.ok()) return bad;
  const platform::LongMutex::Hold lock(mutex_);
  auto declared = find_declared(name);
  if (!declared && declared.status().code != Code::not_found) return declared.status();
  auto gate = declared_cluster(name);
  if (!gate) return gate.status();
  DictionaryOptions options;
  if (declared) {
    options.size = declared->bytes;
    options.declared_largest = declared->largest;
  }
  options.gate = *gate;

  const auto known = dictionaries_.find(name);
  if (known != dictionaries_.end()) {
    if (known->second->segment(EpochGuard()) != nullptr) {
      if (Status wrong = check_declared(*known->second, *gate); !wrong.ok()) return wrong;
      return known->second.get();
    }
    if (!declared) return Status{Code::not_found, "dictionary " + quote_name(name) + " was removed"};
    const Status status = known->second->reopen(options);
    if (!status.ok()) return status;
    return known->second.get();
  }
  if (declared && declared->bytes >= kSizeMin && check_largest(name, declared->bytes, declared->largest).ok())
    if (Status way = make_way(name, *declared); !way.ok()) return way;
  // Prefer a dictionary that is in use, whatever size is declared, because its creator may have asked for the right
  // size.
  auto existing = open_locked(name, {});
  if (existing) {
    if (Status wrong = check_declared(**existing, *gate); !wrong.ok()) return wrong;
  }
  if (existing || existing.status().code != Code::not_found || !declared || World::observes()) return existing;
  if (options.size < kSizeMin) return bad_declaration(name);
  if (Status large = check_largest(name, options.size, options.declared_largest); !large.ok()) return large;
  return open_locked(name, options);
}

Status Registry::remove(const std::string& name) {
  Status bad = check_name(name);
  if (!bad.ok()) return bad;
  if (World::observes()) return World::refuse_observer();
  auto world = World::current();
  if (!world) return world.status();
  const platform::LongMutex::Hold lock(mutex_);
  Status removed = retire_world_file((*world)->directory(), Segment::file_name(name));
  if (removed.ok()) post_to_everyone(**world);  // some processes may wait for a lock in this dictionary
  const auto known = dictionaries_.find(name);
  if (known != dictionaries_.end()) known->second->segment(EpochGuard());  // detects and releases the removed segment
  return removed;
}

}  // namespace holdfast
