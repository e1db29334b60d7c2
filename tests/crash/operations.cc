#include <unistd.h>

#include <memory>

#include "crash/scenario.h"
#include "dict/fencing.h"
#include "dict/list.h"
#include "lock/lock_entry.h"

namespace holdfast::crash {

namespace {

class LockMaker : public Maker {
 public:
  LockMaker(Victim& victim, const State& state, Random& random) : Maker(victim, state, random) {
    victim.put(state.image);
    for (const std::string& key : state.keys)
      (dict_.get(key).code == HOLDFAST_NOT_FOUND ? absent_ : present_).push_back(key);
  }

  std::vector<Scenario> make() {
    values();
    deletions();
    numbers();
    times();
    swaps();
    pushes();
    pops();
    over_lists();
    for (const std::string& key : state_.name == "locks" ? state_.keys : std::vector<std::string>{any()}) acquire(key);
    free_locks();
    bound_locks();
    if (state_.name == "locks") numbers_of_locks();
    if (victim_.has_versions()) changes_by_version();
    releases();
    waits();
    watches();
    reads();
    return std::move(scenarios_);
  }

 private:
  const std::string& present() { return present_.empty() ? any() : pick(present_); }
  const std::string& absent() { return absent_.empty() ? any() : pick(absent_); }
  std::string some_text(std::size_t limit) {
    return std::string(random_() % limit, static_cast<char>('A' + random_() % 26));
  }

  using Maker::add;
  void add(
      const std::string& name, const std::string& key, std::function<int()> run,
      std::function<void()> prepare = [] {}) {
    Maker::add(
        name, key, [prepare = std::move(prepare)](Tools&, const std::string&) { prepare(); },
        [run = std::move(run)](Tools&, const std::string&) { return run(); });
  }

  void values() {
    for (const std::string& key : {absent(), present(), any()}) {
      add("set", key, [this, key, value = some_text(60)] { return dict_.set(key, value, 0, 9); });
      add("set a larger value", key, [this, key, value = some_text(700)] { return dict_.set(key, value, 500); });
    }
    const std::string key = present();
    const std::string old = dict_.get(key).text;
    add("set a value of the same size", key,
        [this, key, value = std::string(old.size(), '#')] { return dict_.set(key, value); });
    // The preparation leaves a spare block.
    add(
        "set a value of the same size again", key,
        [this, key, value = std::string(old.size(), '#')] { return dict_.set(key, value); },
        [this, key, value = std::string(old.size(), '+')] { dict_.set(key, value); });
    const std::string gone = any();
    add(
        "add a deleted key", gone, [this, gone] { return dict_.add(gone, std::string(40, '#')); },
        [this, gone] {
          dict_.set(gone, std::string(40, '+'));
          dict_.remove(gone);
        });
    add(
        "delete with a spare block", key, [this, key] { return dict_.remove(key); },
        [this, gone] { dict_.set(gone, std::string(40, '+')), dict_.set(gone, std::string(40, '-')); });
    const std::string target = any();
    add("set a number", target, [this, target] { return dict_.set_number(target, 77, 0, 3); });
    add(
        "set a number over itself", target, [this, target] { return dict_.set_number(target, 78, 0, 3); },
        [this, target] { dict_.set_number(target, 77, 0, 3); });
    for (const std::string& other : {absent(), present()}) {
      add("add", other, [this, other] { return dict_.add(other, "added"); });
      add("replace", other, [this, other] { return dict_.replace(other, "replaced by something longer"); });
      for (const int op : {HOLDFAST_SAFE_SET, HOLDFAST_SAFE_ADD})
        add(op == HOLDFAST_SAFE_SET ? "safe_set" : "safe_add", other,
            [this, op, other, value = some_text(90)] { return dict_.store(op, other, value, 0, 2); });
    }
  }

  void deletions() {
    // Chooses the first, a middle and the last entry of every chain.
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string key = present_.empty() ? any() : present_[i * (present_.size() - 1) / 2];
      add("delete", key, [this, key] { return dict_.remove(key); });
    }
    const std::string key = absent();
    add("delete", key, [this, key] { return dict_.remove(key); });
    add("flush_all", "", [this] { return dict_.flush_all(); });
    const std::string over = any();
    add(
        "flush_expired", over, [this] { return to_code(dict_.flush_expired()); }, [this, over] { expire_now(over); });
    add("flush_expired of at most one", "", [this] { return to_code(dict_.flush_expired(1)); });
  }

  void numbers() {
    const auto incr = [this](const std::string& key) {
      double sum = 0;
      return dict_.incr_from(key, 1.5, 10, 300, &sum);
    };
    for (const std::string& key : {absent(), present(), any()}) add("incr", key, [incr, key] { return incr(key); });
    const std::string key = any();
    add(
        "incr of a number", key, [incr, key] { return incr(key); }, [this, key] { dict_.set_number(key, 5); });
  }

  void times() {
    for (const std::string& key : {absent(), present()})
      add("expire", key, [this, key] { return dict_.expire(key, 400); });
  }

  void swaps() {
    const auto cas = [this](const std::string& name, const std::string& key, const test::Got* expected,
                            const test::Got* desired, const test::Got* old) {
      const auto copy = [](const test::Got* got) {
        return got == nullptr ? nullptr : std::make_shared<test::Got>(*got);
      };
      add(
          "cas, " + name, key,
          [this, key, then = copy(desired), before = copy(expected)] {
            return dict_.cas(key, before.get(), then.get(), 300);
          },
          [this, key, stored = copy(old)] {
            dict_.remove(key);
            if (stored == nullptr) return;
            const int code =
                stored->type == HOLDFAST_NUMBER ? dict_.set_number(key, stored->number) : dict_.set(key, stored->text);
            if (code != HOLDFAST_OK) ::_exit(kSkip);
          });
    };
    const test::Got old = test::text("what it was");
    const test::Got then = test::text(some_text(120), 6);
    const test::Got five = test::number(5);
    const test::Got six = test::number(6);
    cas("equal", any(), &old, &then, &old);
    cas("equal, a number by another", any(), &five, &six, &five);
    cas("differs", any(), &then, &old, &old);
    cas("nothing there", any(), &old, &then, nullptr);
    cas("from nothing", any(), nullptr, &then, nullptr);
    cas("from nothing, but something is there", any(), nullptr, &then, &old);
    cas("to nothing", any(), &old, nullptr, &old);
  }

  void changes_by_version() {
    for (const std::string& key : {absent(), present()})
      for (const bool is_stored : {true, false})
        add(is_stored ? "store unless changed" : "delete unless changed", key,
            [this, key, is_stored, value = test::text(some_text(120), 6)] {
              holdfast_version_of_key known = dict_.version(key);
              return dict_.store_unless_changed(key, &known, is_stored ? &value : nullptr, 300);
            });
  }

  // --- lists ---

  void make_list(const std::string& key, int length) {
    dict_.remove(key);
    for (int i = 0; i < length; ++i)
      if ((i % 2 == 0 ? dict_.push_number(key, HOLDFAST_RIGHT, i)
                      : dict_.push(key, HOLDFAST_RIGHT, std::string(static_cast<std::size_t>(10 * i), 'e'))) <= 0)
        ::_exit(kSkip);
  }
  void expire_now(const std::string& key) {
    dict_.expire(key, 0.001);
    ::usleep(5000);
  }

  void on_list(const std::string& name, int length, std::function<int(const std::string&)> run, bool expired = false) {
    const std::string key = any();
    add(
        name + " of " + std::to_string(length), key, [run = std::move(run), key] { return run(key); },
        [this, key, length, expired] {
          make_list(key, length);
          if (expired) expire_now(key);
        });
  }

  void pushes() {
    for (const int end : {HOLDFAST_LEFT, HOLDFAST_RIGHT}) {
      const std::string name = end == HOLDFAST_LEFT ? "lpush" : "rpush";
      for (const int length : {0, 1, 3}) {
        on_list(name + " to a list", length, [this, end, value = some_text(90)](const std::string& key) {
          return to_code(dict_.push(key, end, value));
        });
        on_list(name + " of a number to a list", length,
                [this, end](const std::string& key) { return to_code(dict_.push_number(key, end, 8)); });
      }
      on_list(
          name + " to an expired list", 2,
          [this, end](const std::string& key) { return to_code(dict_.push(key, end, "v")); }, true);
      for (const std::string& key : {absent(), present()})
        add(name, key, [this, end, key] { return to_code(dict_.push(key, end, "v")); });
    }
  }

  void pops() {
    for (const int end : {HOLDFAST_LEFT, HOLDFAST_RIGHT}) {
      const std::string name = end == HOLDFAST_LEFT ? "lpop" : "rpop";
      for (const int length : {0, 1, 2, 4})
        on_list(name + " from a list", length,
                [this, end](const std::string& key) { return dict_.pop(key, end).code; });
      on_list(name + " into too small a buffer from a list", 2,
              [this, end](const std::string& key) { return dict_.pop(key, end, 1).code; });
      for (const std::string& key : {absent(), present()})
        add(name, key, [this, end, key] { return dict_.pop(key, end).code; });
    }
  }

  void over_lists() {
    on_list("set over a list", 3, [this](const std::string& key) { return dict_.set(key, "v", 0, 1); });
    on_list("replace of a list", 3, [this](const std::string& key) { return dict_.replace(key, "v"); });
    on_list("add over a list", 3, [this](const std::string& key) { return dict_.add(key, "v"); });
    on_list("delete of a list", 4, [this](const std::string& key) { return dict_.remove(key); });
    on_list("expire of a list", 2, [this](const std::string& key) { return dict_.expire(key, 500); });
    on_list(
        "flush_expired of a list", 3, [this](const std::string&) { return to_code(dict_.flush_expired()); }, true);
    on_list("llen of a list", 3, [this](const std::string& key) { return to_code(dict_.llen(key)); });
    for (int number = 0; number < 3; ++number)
      on_list("move node " + std::to_string(number) + " of a list", 3,
              [this, number](const std::string& key) { return move_node(key, number); });
    on_list("move the only node of a list", 1, [this](const std::string& key) { return move_node(key, 0); });
  }

  /// Moves a node, as the sweep does when it compacts memory.
  int move_node(const std::string& key, int number) {
    HeldEntry entry(victim_, key);
    Shard& shard = entry.shard;
    std::uint32_t from = entry.position.view.list_ends().first;
    for (int i = 0; i < number; ++i) from = shard.words32(from)[0].load(kRelaxed);
    EntryView node{};
    shard.inspect(from, node);
    const std::uint32_t to = entry.arena.allocate(node.granules);
    if (to == 0) return HOLDFAST_NO_MEMORY;
    for (std::uint32_t i = 0; i < node.granules * kGranule / 4; ++i)
      shard.words32(to)[i].store(shard.words32(from)[i].load(kRelaxed), kRelaxed);
    if (!List::relink(shard, from, to)) return HOLDFAST_CORRUPT;
    entry.arena.release(from, node.granules);
    return HOLDFAST_OK;
  }

  void acquire(const std::string& key) {
    Maker::add(
        "lock", key, [](Tools&, const std::string&) {},
        [this](Tools& tools, const std::string& name) { return dict_.try_lock(name, 600, &tools.lease); });
  }

  /// The child holds the lock. Waiters and watchers of the judging process queue for it in order of arrival.
  void hold(const std::string& key, Tools& tools, std::uint32_t waiters, bool patient, std::uint32_t watchers = 0) {
    dict_.remove(key);
    if (dict_.try_lock(key, 600, &tools.lease) != HOLDFAST_OK) ::_exit(kSkip);
    HeldEntry entry(victim_, key);
    LockFields& lock = entry.position.view.lock();
    take_over(lock);
    for (std::uint32_t i = 0; i < waiters; ++i) {
      Waiter waiter = waiter_of(judge_token_, 1000 + i);
      if (!WaitQueue(entry.shard, entry.arena, lock.queue).add(waiter, 0)) ::_exit(kSkip);
      if (!patient) entry.shard.entry(lock.queue.tail.load(kRelaxed)).expiry.store(1, kRelaxed);
    }
    WaitQueue watching(entry.shard, entry.arena, lock.watchers, EntryType::watcher);
    for (std::uint32_t i = 0; i < watchers; ++i) {
      Waiter watcher = waiter_of(judge_token_, 2000 + i);
      if (!watching.append(watcher, tools.lease.sequence)) ::_exit(kSkip);
    }
    release_word(lock);
  }

  /// Creates a free lock that was held `times` times.
  void make_free(const std::string& key, std::uint32_t times = 1) {
    holdfast_lease lease{};
    dict_.remove(key);
    for (std::uint32_t i = 0; i < times; ++i)
      if (dict_.try_lock(key, 600, &lease) != HOLDFAST_OK || dict_.unlock(key, &lease) != HOLDFAST_OK) ::_exit(kSkip);
  }

  void free_locks() {
    const auto on_free = [this](const std::string& name, std::function<int(const std::string&)> run) {
      const std::string key = any();
      add(
          name + " a free lock", key, [run = std::move(run), key] { return run(key); },
          [this, key] { make_free(key); });
    };
    holdfast_lease lease{};
    on_free("lock", [this, lease](const std::string& key) mutable { return dict_.try_lock(key, 600, &lease); });
    on_free("set over", [this](const std::string& key) { return dict_.set(key, "v"); });
    on_free("add over", [this](const std::string& key) { return dict_.add(key, "v"); });
    on_free("delete", [this](const std::string& key) { return dict_.remove(key); });
    on_free("expire", [this](const std::string& key) { return dict_.expire(key, 400); });
    on_free("incr over", [this](const std::string& key) {
      double sum = 0;
      return dict_.incr_from(key, 1, 1, 0, &sum);
    });
  }

  /// Adds a grant and a release in the place that the process remembers.
  void bound_locks() {
    const std::string key = any();
    auto bound = std::make_shared<holdfast_bound>();
    const auto take = [this, key, bound] {
      dict_.remove(key);
      for (int i = 0; i < 2; ++i) {
        if (i != 0 && dict_.unlock(key, &bound->lease) != HOLDFAST_OK) ::_exit(kSkip);
        if (holdfast_lock_bind(dict_.handle, key.data(), key.size(), 600, 0, 0, bound.get()) != HOLDFAST_OK)
          ::_exit(kSkip);
      }
    };
    const auto lock = [this, key, bound] {
      return holdfast_lock_again(dict_.handle, key.data(), key.size(), 600, 0, bound.get()) == 1 ? HOLDFAST_OK
                                                                                                 : HOLDFAST_LOCKED;
    };
    const auto unlock = [this, key, bound] {
      return holdfast_unlock_again(dict_.handle, key.data(), key.size(), bound.get()) == 1 ? HOLDFAST_OK
                                                                                           : HOLDFAST_NOT_OWNER;
    };
    add("unlock in a known place", key, unlock, take);
    add("lock in a known place", key, lock, [take, unlock] {
      take();
      if (unlock() != HOLDFAST_OK) ::_exit(kSkip);
    });
  }

  /// Adds operations in which a lock has used up its block of fencing tokens, and takes the next block. Near the end of
  /// a range, the next block is not adjacent.
  void numbers_of_locks() {
    const std::string key = state_.keys[0];
    const std::string other = state_.keys[1];
    for (const bool at_end : {false, true}) {
      auto tools = std::make_shared<Tools>();
      add(
          at_end ? "lock with a new block of numbers, in a new range" : "lock with a new block of numbers", key,
          [this, key, tools] { return dict_.try_lock(key, 600, &tools->lease); },
          [this, key, other, tools, at_end] {
            constexpr std::uint64_t kLeft = 40;
            DictionaryHeader& header = victim_.segment().header();
            const std::uint64_t count = (header.range.load(kRelaxed) + 1) * kFencingRange - kLeft;
            if (at_end) {
              header.sequence.store(count, kRelaxed);
              header.given.store(count, kRelaxed);
            }
            make_free(key, kFirstNumbers);
            dict_.remove(other);
            if (dict_.try_lock(other, 600, &tools->lease) != HOLDFAST_OK) ::_exit(kSkip);
          });
    }
  }

  Prepare holding(std::uint32_t waiters, bool patient = true, std::uint32_t watchers = 0) {
    return [this, waiters, patient, watchers](Tools& tools, const std::string& key) {
      hold(key, tools, waiters, patient, watchers);
    };
  }
  void held(const std::string& name, std::uint32_t waiters, bool patient, Run run, std::uint32_t watchers = 0) {
    Maker::add(name, holding(waiters, patient, watchers), std::move(run));
  }

  void releases() {
    const auto unlock = [this](Tools& tools, const std::string& key) { return dict_.unlock(key, &tools.lease); };
    held("unlock", 0, true, unlock);
    held("unlock, with a waiter for which the lock is reserved", 1, true, unlock);
    held("unlock, with three waiters", 3, true, unlock);
    held("unlock, with waiters that are gone", 2, false, unlock);
    held("unlock, with a waiter and watchers", 1, true, unlock, 3);
    held("unlock, with more watchers than are called at once", 0, true, unlock, 70);
    held(
        "delete a lock with watchers", 0, true, [this](Tools&, const std::string& key) { return dict_.remove(key); },
        3);
    held("renew", 0, true, [this](Tools& tools, const std::string& key) { return dict_.renew(key, tools.lease, 900); });
    held("adopt", 0, true, [this](Tools& tools, const std::string& key) { return dict_.adopt(key, tools.lease, 5); });
    held("delete a lock", 0, true, [this](Tools&, const std::string& key) { return dict_.remove(key); });
    held("delete a lock with waiters", 3, true, [this](Tools&, const std::string& key) { return dict_.remove(key); });
    held("set over a held lock", 0, true, [this](Tools&, const std::string& key) { return dict_.set(key, "v"); });
    held("expire of a held lock", 0, true, [this](Tools&, const std::string& key) { return dict_.expire(key, 300); });
    held("set over a lock with waiters", 2, true,
         [this](Tools&, const std::string& key) { return dict_.set(key, "v"); });
    held("lock a lock that the same process holds", 0, true,
         [this](Tools& tools, const std::string& key) { return dict_.try_lock(key, 600, &tools.lease); });
    const std::string key = any();
    add("unlock a lock of another owner", key, [this, key] {
      holdfast_lease other{judge_token_, 1};
      return dict_.unlock(key, &other);
    });
  }

  int wait(const std::string& key, Tools& tools) {
    return holdfast_lock_wait(dict_.handle, key.data(), key.size(), 600, &tools.wait, &tools.lease);
  }
  int watch(const std::string& key, Tools& tools) {
    return holdfast_lock_watch(dict_.handle, key.data(), key.size(), &tools.wait, &tools.grant);
  }

  void waits() {
    const Run come = [this](Tools& tools, const std::string& key) { return wait(key, tools); };
    const auto queued = [this](std::uint32_t others) {
      return [this, others](Tools& tools, const std::string& key) {
        hold(key, tools, others, true);
        wait(key, tools);
      };
    };
    const auto chosen = [this, queued](bool with_another) {
      return [this, with_another, queue = queued(0)](Tools& tools, const std::string& key) {
        queue(tools, key);
        ::usleep(3000);  // after this time, a release reserves the lock for the waiter
        Tools second;
        if (with_another) with_waiter([this](Tools& next, const std::string& name) { wait(name, next); })(second, key);
        dict_.unlock(key, &tools.lease);
      };
    };
    const Prepare as_it_is = [](Tools&, const std::string&) {};
    for (const std::string& key : {any(), present()}) Maker::add("wait for a lock", key, with_waiter(as_it_is), come);
    Maker::add("wait for a held lock", with_waiter(holding(0)), come);
    Maker::add("wait behind other waiters", with_waiter(holding(2)), come);
    Maker::add("leave the queue", with_waiter(queued(2)), leaving());
    Maker::add("leave the queue last; the lock is then free without the mutex", with_waiter(queued(0)), leaving());
    Maker::add("claim what was reserved", with_waiter(chosen(false)), come);
    Maker::add("leave what was reserved", with_waiter(chosen(false)), leaving());
    Maker::add("leave what was reserved to the next waiter", with_waiter(chosen(true)), leaving());
  }

  void watches() {
    const Run look = [this](Tools& tools, const std::string& key) { return watch(key, tools); };
    const auto watching = [this](std::uint32_t waiters, std::uint32_t watchers) {
      return [this, waiters, watchers](Tools& tools, const std::string& key) {
        hold(key, tools, waiters, true, watchers);
        watch(key, tools);
      };
    };
    Maker::add("watch a held lock", with_waiter(holding(1, true, 2)), look);
    Maker::add("stop watching", with_waiter(watching(1, 2)), leaving());
    Maker::add("continue, and wake others",
               with_waiter([this, watch = watching(0, 70)](Tools& tools, const std::string& key) {
                 watch(tools, key);
                 dict_.unlock(key, &tools.lease);
               }),
               look);
  }

  void reads() {
    const std::string key = any();
    add("get", key, [this, key] { return dict_.get(key).code; });
    add("get_stale", key, [this, key] {
      bool stale = false;
      return dict_.get_stale(key, &stale).code;
    });
    add("ttl", key, [this, key] { return dict_.ttl(key) >= 0 ? HOLDFAST_OK : HOLDFAST_NOT_FOUND; });
  }

  std::vector<std::string> present_;
  std::vector<std::string> absent_;
};

}  // namespace

std::vector<Scenario> make_scenarios(Victim& victim, const State& state, Random& random) {
  return made_by<LockMaker>(victim, state, random);
}

}  // namespace holdfast::crash
