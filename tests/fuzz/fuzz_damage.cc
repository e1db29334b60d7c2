// The input is a program: calls, and between them, commands that overwrite words of the dictionary or of the process
// table. The dictionary is the box from damage/box.h, which is restored before each input.
#include <memory>

#include "damage/box.h"
#include "damage/places.h"
#include "dict/repair.h"
#include "fuzz/world_of_one.h"
#include "support/shard_check.h"

namespace holdfast::fuzz {
namespace {

constexpr std::uint64_t kSize = 12288;
constexpr double kShort = 5;

struct Stage {
  Stage() : box((world_of_one(), kSize)), places(std::make_unique<damage::Places>(box)), mapped(box.bytes()) {}

  void set_again() {
    box.restore();
    if (box.bytes() == mapped) return;
    mapped = box.bytes();
    places = std::make_unique<damage::Places>(box);
  }

  damage::Box box;
  std::unique_ptr<damage::Places> places;
  const std::byte* mapped;
};

Stage& stage() {
  static auto* const only = new Stage;
  return *only;
}

class Program {
 public:
  Program(Stage& stage, Input input)
      : box_(stage.box),
        places_(*stage.places),
        dict_(stage.box.dict()),
        limit_(call_limit()),
        input_(input),
        parker_(holdfast_parker_new()),
        waiter_(holdfast_waiter_open(parker_)),
        held_(stage.box.lease()) {}
  ~Program() {
    holdfast_waiter_close(parker_, waiter_);
    holdfast_parker_free(parker_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run() {
    const std::uint64_t repairs = dict_.stats().repairs;
    for (int steps = 0; steps < kStepsMax && !input_.empty(); ++steps) step();
    leave();
    if (dict_.dictionary().segment(EpochGuard()) == nullptr) return;  // a call reported the removal
    if (!damaged_) {
      const Shard& shard = dict_.segment().shards().front();
      require(dict_.stats().repairs == repairs, "a shard was repaired without damage");
      require(audit(shard, dict_.segment().seed()), "the audit finds damage although none was done");
    }
    put_in_order();
  }

 private:
  static constexpr int kStepsMax = 64;

  const std::string& key() { return box_.items()[input_.take<std::uint8_t>() % box_.items().size()].key; }

  template <class Call>
  void call(const char* name, Call&& call) {
    limit_(name, [&] {
      call();
      return 0;
    });
  }

  void step() {
    const auto what = input_.take<std::uint8_t>();
    if (what < 64)
      overwrite();
    else if (what < 112)
      change_value(what % 8);
    else if (what < 160)
      change_lock(what % 10);
    else if (what < 192)
      change_permits(what % 6);
    else if (what < 224)
      look(what % 8);
    else
      change_all(what % 4);
  }

  void overwrite() {
    damaged_ = true;
    damage::Damage damage = places_.at(input_.take<std::uint32_t>() % places_.count());
    // If bit 0 is set, the new value is arbitrary.
    if (const auto value = input_.take<std::uint32_t>(); (value & 1) != 0) damage.value = value >> 1;
    // Damage to these words may make the dictionary unusable, and creating a new box takes as long as a hundred inputs.
    // damage/sweep.cc covers these words.
    if (!damage.in_table && damage.offset < sizeof(FileHeader)) return;
    std::memcpy((damage.in_table ? box_.table() : box_.bytes()) + damage.offset, &damage.value, damage.bytes);
  }

  void change_value(int what) {
    const std::string& name = key();
    const auto size = input_.take<std::uint16_t>() % 2000U;
    const int end = static_cast<int>(size % 2);
    double sum = 0;
    const test::Got old = test::text("old");
    switch (what) {
      case 0:
        return call("set", [&] { dict_.set(name, std::string(size, 's'), size % 5 == 0 ? 0.001 : 0); });
      case 1:
        return call("safe_set", [&] { dict_.store(HOLDFAST_SAFE_SET, name, std::string(size, 'a'), 0, 0); });
      case 2:
        return call("delete", [&] { dict_.remove(name); });
      case 3:
        return call("incr", [&] { dict_.incr_from(name, 1, 0, 0, &sum); });
      case 4:
        return call("push", [&] { dict_.push(name, end, std::string(size % 300, 'l')); });
      case 5:
        return call("pop", [&] { dict_.pop(name, end); });
      case 6:
        return call("expire", [&] { dict_.expire(name, size % 2 == 0 ? 0.001 : 1000); });
      default:
        return call("cas", [&] { dict_.cas(name, size % 3 == 0 ? nullptr : &old, &old); });
    }
  }

  void change_lock(int what) {
    const std::string& name = key();
    holdfast_holder holder{};
    switch (what) {
      case 0:
      case 1:
        return call("lock_try", [&] { dict_.try_lock(name, kShort, &held_); });
      case 2:
        return call("unlock", [&] { dict_.unlock(name, &held_); });
      case 3:
        call("lock_adopt", [&] { dict_.adopt(name, held_, 1 << 20 | 5); });
        return call("lock_renew", [&] { dict_.renew(name, held_, kShort); });
      case 4:
        return call("lock_remaining", [&] { dict_.remaining(name, held_); });
      case 5:
        return call("lock_explain", [&] { dict_.explain(name, held_, std::string(name.size() * 7, 'w')); });
      case 6:
        return call("lock_holder", [&] { dict_.holder(name, &holder); });
      case 7:
        return leave();
      case 8:
        return watch(name);
      default:
        return wait_for(name);
    }
  }

  // A waiter waits for only one key at a time.
  void wait_for(const std::string& name) {
    if (!waits_for_.empty() && waits_for_ != name) leave();
    holdfast_wait wait{};
    wait.parker = parker_;
    wait.waiter = waiter_;
    wait.task = 1 << 20 | 5;
    wait.holds = HOLDFAST_HOLDS_SOMETHING;
    holdfast_lease lease{};
    int code = 0;
    call("lock_wait",
         [&] { code = holdfast_lock_wait(dict_.handle, name.data(), name.size(), kShort, &wait, &lease); });
    waits_for_ = code == HOLDFAST_LOCKED || code == HOLDFAST_TIMEOUT || code == HOLDFAST_DEADLOCK ? name : "";
    if (code == HOLDFAST_OK) held_ = lease;
    std::uint32_t woken = 0;
    call("parker_sleep", [&] { holdfast_parker_sleep(parker_, 0, &woken, 1); });
  }

  void watch(const std::string& name) {
    if (!waits_for_.empty()) leave();
    holdfast_wait wait{};
    wait.parker = parker_;
    wait.waiter = waiter_;
    std::uint64_t grant = 0;
    call("lock_watch", [&] { holdfast_lock_watch(dict_.handle, name.data(), name.size(), &wait, &grant); });
    waits_for_ = name;
  }

  void leave() {
    if (waits_for_.empty()) return;
    call("lock_leave", [&] { dict_.leave(waits_for_, parker_, waiter_); });
    waits_for_.clear();
  }

  void change_permits(int what) {
    const std::string& name = key();
    const int kind = static_cast<int>(name.size() % 2);
    switch (what) {
      case 0:
      case 1:
        return call("permits_try", [&] { dict_.try_permits(name, kind, 1, 10, kShort, &held_); });
      case 2:
        call("permits_upgrade", [&] { dict_.upgrade(name, held_); });
        return call("permits_keep", [&] { dict_.keep(name, held_, 1); });
      case 3:
        return call("permits_count", [&] { dict_.used(name); });
      case 4:
        return call("unlock", [&] { dict_.unlock(name, &held_); });
      default:
        leave();
        holdfast_wait wait{};
        wait.parker = parker_;
        wait.waiter = waiter_;
        call("permits_wait", [&] { dict_.wait_permits(name, kind, 10, 10, kShort, &wait, &held_); });
        waits_for_ = name;
        return leave();
    }
  }

  void look(int what) {
    const std::string& name = key();
    bool stale = false;
    std::uint64_t cursor = input_.take<std::uint16_t>() % 200U;
    switch (what) {
      case 0:
      case 1:
        return call("get", [&] { dict_.get(name); });
      case 2:
        return call("get_stale", [&] { dict_.get_stale(name, &stale); });
      case 3:
        return call("ttl", [&] { dict_.ttl(name); });
      case 4:
        return call("llen", [&] { dict_.llen(name); });
      case 5:
        return call("keys", [&] { dict_.keys(); });
      case 6:
        return call("scan", [&] { dict_.scan(&cursor, 10, "te"); });
      default:
        return call("stats", [&] { dict_.stats(); });
    }
  }

  void change_all(int what) {
    switch (what) {
      case 0:
        return call("flush_all", [&] { dict_.flush_all(); });
      case 1:
        return call("flush_expired", [&] { dict_.flush_expired(); });
      default:
        for (int i = 0; i < 12; ++i)
          call("set", [&] { dict_.set("filler " + std::to_string(i), std::string(700, 'f')); });
    }
  }

  void put_in_order() {
    call("flush_expired", [&] { dict_.flush_expired(); });
    Segment* const segment = dict_.dictionary().segment(EpochGuard());
    if (segment == nullptr) return;
    if (const std::string wrong = test::check_segment(*segment); !wrong.empty()) fail("left damaged: " + wrong);
    const std::uint64_t repairs = dict_.stats().repairs;
    call("flush_expired", [&] { dict_.flush_expired(); });
    require(dict_.stats().repairs == repairs, "the second check finds damage again");
    holdfast_lease lease{};
    int code = 0;
    call("set", [&] { code = dict_.set("afterwards", "value"); });
    require(code == HOLDFAST_OK && dict_.get("afterwards") == test::text("value"), "set does not work afterwards");
    call("lock_try", [&] { code = dict_.try_lock("a lock afterwards", kShort, &lease); });
    require(code == HOLDFAST_OK, "lock_try does not work afterwards");
    call("unlock", [&] { code = dict_.unlock("a lock afterwards", &lease); });
    require(code == HOLDFAST_OK, "unlock does not work afterwards");
  }

  damage::Box& box_;
  const damage::Places& places_;
  test::Dict& dict_;
  test::CallLimit& limit_;
  Input input_;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  holdfast_lease held_;
  std::string waits_for_;
  bool damaged_ = false;
};

}  // namespace
}  // namespace holdfast::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast::fuzz;
  Stage& now = stage();
  now.set_again();
  Program(now, Input(data, size)).run();
  return 0;
}
