// Checks every state in which a killed process can leave a shard that it is opening, or an arena that it is growing.
// Runs, one instruction at a time, the first change of a shard, and a change for which the arena has no room. A process
// that has not used the shard yet checks each image of the dictionary, as if the stepped process had died at that
// instruction.
//
//   crash_growth [WORD]     runs only tests with WORD in their names
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "crash/ledger.h"
#include "crash/stepper.h"
#include "dict/reserved.h"
#include "support/dict.h"
#include "support/process.h"

namespace holdfast::crash {
namespace {

using test::Child;
using test::Dict;

constexpr std::uint64_t kSize = 2U << 20;    // holds two shards
constexpr std::uint64_t kArena = 64U << 10;  // the part of the first shard's arena that is compared
const std::string kValue(100, 'v');

class Growth {
 public:
  explicit Growth(std::string only)
      : only_(std::move(only)),
        dict_("d", {.size = kSize}),
        bytes_(reinterpret_cast<std::byte*>(&dict_.segment().header())),
        blank_(bytes_, bytes_ + kSize),
        compared_(dict_.segment().geometry().shards_at + dict_.segment().geometry().arena_at + kArena),
        filled_(make_shared_memory<int>()) {
    // All keys are in the first shard.
    for (int i = 0; keys_.size() < 2000; ++i)
      if (std::string key = "key " + std::to_string(i); &shard_of(key) == &dict_.segment().shards().front())
        keys_.push_back(std::move(key));
  }

  void step(const char* name, bool fill_first, const std::function<int()>& run) {
    if (std::string(name).find(only_) == std::string::npos) return;
    std::memcpy(bytes_, blank_.data(), kSize);
    filled_ = 0;
    const auto prepare = [&] {
      dict_.get("enters the world");
      while (fill_first && has_room()) dict_.set(keys_[static_cast<std::size_t>(filled_++)], kValue);
    };
    Stepped stepped;
    const std::vector<Image> images = step_images(prepare, run, {bytes_, kSize}, compared_, stepped);
    if (!stepped.problem.empty() || stepped.status != HOLDFAST_OK) fail(name, "it gave " + stepped.problem);
    instructions_ += stepped.instructions;
    images_ += images.size();
    if (images.size() < 20) fail(name, "too few images");
    for (const Image& image : images) {
      std::memcpy(bytes_, image.data(), kSize);
      Child judge([&](test::Channel& parent) {
        parent.say(judged());
        return 0;
      });
      if (const std::string wrong = judge.hear(); wrong != "right") fail(name, wrong);
    }
  }

  std::string new_key() const { return keys_.back(); }
  Dict& dict() { return dict_; }

  int end() const {
    std::printf("%llu instructions, %zu images, %d violations\n", static_cast<unsigned long long>(instructions_),
                images_, violations_);
    return violations_ == 0 ? 0 : 1;
  }

 private:
  Shard& shard_of(const std::string& key) { return dict_.segment().shard_of(Key(key, dict_.segment().seed()).hash); }
  /// Returns whether another key of the first shard fits without growth.
  bool has_room() {
    const Shard& shard = dict_.segment().shards().front();
    return filled_ == 0 || shard.header().free_granules.load(kRelaxed) >= granules_for(16, kValue.size());
  }

  /// Returns "right", or describes the fault in the dictionary.
  std::string judged() {
    for (int i = 0; i < filled_; ++i)
      if (dict_.get(keys_[static_cast<std::size_t>(i)]) != test::text(kValue)) return "a key is lost: " + keys_[i];
    if (const test::Got got = dict_.get(new_key()); got.code == HOLDFAST_OK && got != test::text(kValue))
      return "a value is incomplete";
    for (std::size_t i = 0; i < 1000; ++i)
      if (dict_.set(keys_[i], kValue) != HOLDFAST_OK) return std::string("a change fails: ") + holdfast_error();
    for (std::size_t i = 0; i < 1000; ++i)
      if (dict_.get(keys_[i]) != test::text(kValue)) return "a later key is lost";
    const std::uint64_t repairs = dict_.stats().repairs;
    if (repairs > 1) return "the repair changed more than the death requires";
    dict_.flush_expired();
    if (dict_.stats().repairs != repairs) return "the audit found damage";
    if (dict_.stats().evictions != 0) return "a key was evicted";
    return "right";
  }

  void fail(const char* name, const std::string& what) {
    ++violations_;
    std::printf("%s: %s\n", name, what.c_str());
  }

  const std::string only_;
  Dict dict_;  // this process only reads the file, and never opens the shards
  std::byte* bytes_;
  Image blank_;
  std::size_t compared_;  // number of bytes at the beginning of the segment that the operation may change
  int& filled_;           // number of keys that the preparation stored
  std::vector<std::string> keys_;
  std::uint64_t instructions_ = 0;
  std::size_t images_ = 0;
  int violations_ = 0;
};

int run(const char* only) {
  const test::ScratchDirectory directory;
  Growth growth(only);
  holdfast_lease lease{};
  growth.step("the first value of a shard", false, [&] { return growth.dict().set(growth.new_key(), kValue); });
  growth.step("a value for which the arena grows", true, [&] { return growth.dict().set(growth.new_key(), kValue); });
  growth.step("a lock for which the arena grows", true,
              [&] { return growth.dict().try_lock(growth.new_key(), 0.001, &lease); });
  return growth.end();
}

}  // namespace
}  // namespace holdfast::crash

int main(int argc, char** argv) { return holdfast::crash::run(argc > 1 ? argv[1] : ""); }
