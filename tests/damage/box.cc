#include "damage/box.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/waiting.h"
#include "world/process_table.h"

namespace holdfast::damage {

namespace {

constexpr double kLong = 1000;
constexpr std::size_t kWaitsKept = 1024;
constexpr std::uint64_t kRoomForLongKeys = 1 << 19;

World& world() {
  auto world = World::current();
  if (world) return **world;
  std::fprintf(stderr, "cannot open the world: %s\n", world.status().message.c_str());
  std::abort();
}

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "cannot fill the box: %s: %s\n", what, holdfast_error());
  std::abort();
}

}  // namespace

Box::Box(std::uint64_t size, bool versions) : size_(size), versions_(versions), self_(world().token()) { make(); }

void Box::make() {
  living_.reset();
  if (dict_) {
    const std::string old = dict_->dictionary().name();
    holdfast_remove(old.data(), old.size());
  }
  dict_.emplace("box-" + std::to_string(::getpid()) + "-" + std::to_string(made_++),
                test::Options{.size = size_, .versions = versions_});
  require(dict_->status == HOLDFAST_OK, "open");
  items_.clear();
  fill();
  let_others_in();
  find_table();
  segment_ = dict_->dictionary().keep_segment();
  bytes_ = reinterpret_cast<std::byte*>(&dict_->segment().header());
  copy_.assign(bytes_, bytes_ + dict_->segment().header().file.size);
}

void Box::fill() {
  for (int i = 0; i < 12; ++i) {
    items_.push_back({"text " + std::to_string(i), Kind::text});
    require(dict_->set(items_.back().key, std::string(static_cast<std::size_t>(i * i), 't')) == HOLDFAST_OK, "text");
  }
  if (size_ >= kRoomForLongKeys) {
    items_.push_back({std::string(60'000, 'K'), Kind::text});
    require(dict_->set(items_.back().key, "long key") == HOLDFAST_OK, "long key");
  }
  for (int i = 0; i < 3; ++i) {
    items_.push_back({"number " + std::to_string(i), Kind::number});
    require(dict_->set_number(items_.back().key, i) == HOLDFAST_OK, "number");
  }
  items_.push_back({"list", Kind::list});
  for (int i = 0; i < 4; ++i) require(dict_->push("list", i % 2, std::string(10, 'l')) > 0, "list");
  holdfast_lease lease{};
  items_.push_back({"quiet", Kind::quiet});
  require(dict_->try_lock("quiet", 0, &lease) == HOLDFAST_OK && dict_->unlock("quiet", &lease) == HOLDFAST_OK, "quiet");
  items_.push_back({"mine", Kind::mine});
  require(dict_->try_lock("mine", kLong, &lease_) == HOLDFAST_OK, "mine");
  require(dict_->explain("mine", lease_, "a reason of some length") == HOLDFAST_OK, "reason");
  holdfast_lease none{};
  require(dict_->try_lock("mine", kLong, &none) == HOLDFAST_LOCKED, "refused");  // for the statistics
  items_.push_back({"expired", Kind::expired});
  require(dict_->set("expired", "old", 0.001) == HOLDFAST_OK, "expired");
  // Leaves gaps between the remaining entries.
  for (const char* key : {"text 3", "text 7"}) require(dict_->set(key, std::string(40, 'g')) == HOLDFAST_OK, "gap");
  ::usleep(10'000);  // until the entry has expired
}

/// Makes this process a reader, a holder of a permit, and a waiter in the queue of `mine`.
void Box::take_part() {
  holdfast_lease lease{};
  require(dict_->try_permits("rwlock", HOLDFAST_RWLOCK, 1, 0, kLong, &lease) == HOLDFAST_OK, "rwlock");
  require(dict_->explain("rwlock", lease, "reads") == HOLDFAST_OK, "reason to read");
  require(dict_->try_permits("permits", HOLDFAST_SEMAPHORE, 2, 10, kLong, &lease) == HOLDFAST_OK, "permits");
  if (world().token() == self_) return;
  holdfast_parker* const parker = holdfast_parker_new();
  double sleep = 0;
  require(dict_->wait_lock("mine", kLong, parker, holdfast_waiter_open(parker), &lease, &sleep) == HOLDFAST_LOCKED,
          "queue");
  holdfast_wait wait{};
  wait.parker = parker;
  wait.waiter = holdfast_waiter_open(parker);
  std::uint64_t grant = 0;
  require(holdfast_lock_watch(dict_->handle, "mine", 4, &wait, &grant) == HOLDFAST_LOCKED, "watch");
}

void Box::live(test::Channel& parent) {
  holdfast_lease lease{};
  require(dict_->try_lock("theirs", kLong, &lease) == HOLDFAST_OK, "theirs");
  take_part();
  parent.say(std::to_string(world().token()));
  // The process stays until it is killed. hear() may give up earlier, so it is repeated.
  while (parent.hear() == "(silence)") {
  }
}

void Box::let_others_in() {
  test::Child dying([this](test::Channel& parent) {
    holdfast_lease lease{};
    require(dict_->try_lock("dead", kLong, &lease) == HOLDFAST_OK, "dead");
    take_part();
    parent.say(std::to_string(world().token()));
    return static_cast<int>(parent.hear().size());
  });
  dead_token_ = std::strtoull(dying.hear().c_str(), nullptr, 10);
  dying.kill_and_wait();
  living_ = std::make_unique<test::Child>([this](test::Channel& parent) {
    live(parent);
    return 0;
  });
  living_token_ = std::strtoull(living_->hear().c_str(), nullptr, 10);
  require(dead_token_ != kNobody && living_token_ != kNobody, "the other processes");
  take_part();
  items_.insert(items_.end(),
                {{"theirs", Kind::theirs}, {"dead", Kind::dead}, {"rwlock", Kind::rwlock}, {"permits", Kind::permits}});
  holdfast_lease lease{};
  require(dict_->try_lock("quiet", 0, &lease) == HOLDFAST_OK, "quiet");
  last_sequence_ = lease.sequence;
  require(dict_->unlock("quiet", &lease) == HOLDFAST_OK, "quiet");
}

void Box::find_table() {
  ProcessSlot* const own = world().slot(self_);
  require(own != nullptr, "the own slot");
  table_ = reinterpret_cast<std::byte*>(own - slot_of(self_)) - kHeaderBytes;
  pieces_.clear();
  const auto keep = [this](std::size_t offset, std::size_t size) {
    pieces_.push_back({offset, size, {table_ + offset, table_ + offset + size}});
  };
  keep(0, kHeaderBytes);
  for (const Token token : {self_, living_token_, dead_token_})
    keep(kHeaderBytes + slot_of(token) * sizeof(ProcessSlot), sizeof(ProcessSlot));
  keep(kWaitTableOffset, kWaitsKept);
}

void Box::restore() {
  for (const Piece& piece : pieces_) std::memcpy(table_ + piece.offset, piece.copy.data(), piece.size);
  if (std::memcmp(bytes_, copy_.data(), offsetof(FileHeader, retired)) == 0 &&
      reinterpret_cast<FileHeader*>(bytes_)->retired.load() == 0 &&
      dict_->dictionary().segment(EpochGuard()) != nullptr &&
      reinterpret_cast<std::byte*>(&dict_->segment().header()) == bytes_) {
    std::memcpy(bytes_, copy_.data(), copy_.size());
    return;
  }
  make();
}

}  // namespace holdfast::damage
