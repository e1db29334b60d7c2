// The dictionary that is changed step by step; a second dictionary with the same layout, in which the images are
// judged; and functions that read an image's content.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crash/stepper.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "support/dict.h"

namespace holdfast::crash {

/// The result of a lock-free read of a key: the entry, and the elements of a list or the holders of permits.
struct Seen {
  enum class Kind { missing, value, lock, torn } kind = Kind::missing;
  std::uint64_t expiry_ms = 0;
  std::uint32_t flags = 0;
  std::uint64_t bits = 0;      // number, boolean, length of a list, owner of a lock, or number of holders of permits
  std::uint64_t sequence = 0;  // the last fencing token of a lock or of permits
  EntryType type{};
  std::string text;  // string, elements of a list, reason of a lock, or holders of permits

  friend bool operator==(const Seen&, const Seen&) = default;
};
using WatchState = std::map<std::string, Seen>;

std::string describe(const Seen& seen);
/// Returns a description of the first difference.
std::string difference(const WatchState& expected, const WatchState& found);

class Victim {
 public:
  /// Creates two dictionaries of `size` bytes with this hash seed, in this process's world. If they have versions,
  /// their images contain the whole file.
  Victim(std::uint64_t size, std::uint64_t hash_seed, bool versions);

  test::Dict& dict() { return *dict_; }
  test::Dict& judged() { return *judged_; }
  Segment& segment() { return dict_->segment(); }

  const std::byte* bytes() { return reinterpret_cast<const std::byte*>(&dict_->segment().header()); }
  /// Returns the size of an image.
  std::size_t size() const { return image_size_; }
  Image take() { return {bytes(), bytes() + size()}; }
  void put(const Image& image) { put(image, *dict_); }
  void put_judged(const Image& image) { put(image, *judged_); }
  /// From now on, checks of images count this dead process's permits as released.
  static void disregard(Token dead);

  /// Reads all `keys` from the bare image, without a lock. Entries that had expired at `start_ns` count as missing. It
  /// does not matter whether owners are alive.
  WatchState see(const Image& image, const std::vector<std::string>& keys, std::uint64_t start_ns);
  WatchState see_judged(const std::vector<std::string>& keys, std::uint64_t start_ns);
  /// Returns the last fencing token in the image.
  static std::uint64_t sequence_of(const Image& image);
  /// Returns the number of live entries that the image counts as evicted.
  static std::uint64_t evictions_of(const Image& image);
  /// Returns whether the shard's mutex is held in the image.
  bool is_locked(const Image& image) const;

  bool has_versions() { return segment().has_versions(); }
  /// Returns the key's version in the image, relative to the segment's first version.
  std::uint64_t version_in(const Image& image, const std::string& key);

  /// Returns the image without its versions and its counters of reuses and repairs.
  Image normalised(Image image) const;

  std::uint32_t bucket_of(const std::string& key);

 private:
  void put(const Image& image, test::Dict& where) const;

  std::size_t size_;
  std::size_t image_size_;
  std::unique_ptr<test::Dict> dict_;
  std::unique_ptr<test::Dict> judged_;
  struct FreeAligned {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, FreeAligned> bare_;
  std::unique_ptr<Shard> bare_shard_;
};

}  // namespace holdfast::crash
