// Creates the scenarios for permits, and for the information about locks.
#include <unistd.h>

#include "crash/scenario.h"

namespace holdfast::crash {

namespace {

constexpr std::uint32_t kTotal = 6;
constexpr double kLong = 800;

class PermitsMaker : public Maker {
 public:
  using Maker::Maker;

  std::vector<Scenario> make() {
    grants();
    releases();
    shortcuts();
    others();
    waits();
    upgrades();
    notes();
    // Stepping is slow, so each scenario runs only in the states that matter to it.
    const auto matters = [this](const char* name) { return state_.name == name; };
    if (!matters("empty") && !matters("crowded") && !matters("permits"))
      std::erase_if(scenarios_, [this](const Scenario&) { return random_() % 4 != 0; });
    return std::move(scenarios_);
  }

 private:
  /// `counts` has the number of permits of each of the child's holders, oldest holder first. A negative number stands
  /// for an expired hold.
  Prepare holding(std::vector<int> counts, std::uint32_t waiters = 0, std::uint32_t want = 1) {
    return [this, counts = std::move(counts), waiters, want](Tools& tools, const std::string& key) {
      dict_.remove(key);
      bool expired = false;
      for (const int count : counts) {
        tools.leases.emplace_back();
        expired = expired || count < 0;
        if (dict_.try_permits(key, HOLDFAST_SEMAPHORE, static_cast<std::uint32_t>(std::abs(count)), kTotal,
                              count < 0 ? 0.001 : kLong, &tools.leases.back()) != HOLDFAST_OK)
          ::_exit(kSkip);
      }
      if (expired) ::usleep(5000);
      queue(key, waiters, want);
    };
  }

  /// Queues waiters of the judging process. The first waiter arrived long ago.
  void queue(const std::string& key, std::uint32_t waiters, std::uint32_t want) {
    if (waiters == 0) return;
    HeldEntry entry(victim_, key);
    WaitQueue queue(entry.shard, entry.arena, entry.position.view.permits().queue);
    for (std::uint32_t i = 0; i < waiters; ++i) {
      Waiter waiter = waiter_of(judge_token_, 2000 + i);
      waiter.want = want;
      if (!queue.add(waiter, 0)) ::_exit(kSkip);
    }
  }

  Run acquiring(std::uint32_t want, std::uint32_t total = kTotal) {
    return [this, want, total](Tools& tools, const std::string& key) {
      return dict_.try_permits(key, HOLDFAST_SEMAPHORE, want, total, 600, &tools.lease);
    };
  }
  Run releasing(std::size_t number) {
    return [this, number](Tools& tools, const std::string& key) { return dict_.unlock(key, &tools.leases[number]); };
  }

  void grants() {
    const Prepare as_it_is = [](Tools&, const std::string&) {};
    const std::vector<std::string> keys =
        state_.name == "permits" ? state_.keys : std::vector<std::string>{state_.keys.front(), any()};
    for (const std::string& key : keys) {
      add("acquire", key, as_it_is, acquiring(2));
      add("acquire all", key, as_it_is, acquiring(5, 5));
      add("write", key, as_it_is, [this](Tools& tools, const std::string& name) {
        return dict_.try_permits(name, HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 0, &tools.lease);
      });
    }
    add("acquire the first", holding({1, -1}), acquiring(3));
    add("acquire with other holders", holding({1, 2}), acquiring(3));
    add("acquire too many", holding({1, 2}), acquiring(4));
    add("acquire expired permits", holding({1, -2, 1, -1}), acquiring(4));
    add("acquire after all holds have expired", holding({-2, -2}), acquiring(6));
    add("acquire behind waiters", holding({4}, 2), acquiring(1));
    add(
        "acquire free permits",
        [this](Tools& tools, const std::string& key) {
          holding({2})(tools, key);
          dict_.unlock(key, &tools.leases[0]);
        },
        acquiring(6));
    add(
        "acquire flushed permits",
        [this](Tools& tools, const std::string& key) {
          holding({2, 2, 1})(tools, key);
          dict_.flush_all();
        },
        acquiring(4));
  }

  void releases() {
    for (const std::size_t number : {0U, 1U, 2U})
      add("release number " + std::to_string(number), holding({1, 2, 1}), releasing(number));
    add("release the only hold", holding({2}), releasing(0));
    add("release with waiters", holding({4, 2}, 3), releasing(0));
    add("release with a waiter that wants more", holding({4, 2}, 1, 6), releasing(0));
    for (const std::size_t number : {0U, 2U})
      add("renew number " + std::to_string(number), holding({1, 2, 1}),
          [this, number](Tools& tools, const std::string& key) { return dict_.renew(key, tools.leases[number], 900); });
    add("adopt", holding({1, 2, 1}),
        [this](Tools& tools, const std::string& key) { return dict_.adopt(key, tools.leases[1], 5); });
    add("renew to an earlier end", holding({1, 2}),
        [this](Tools& tools, const std::string& key) { return dict_.renew(key, tools.leases[1], 400); });
    for (const int waiters : {0, 2})
      add("keep some, " + std::to_string(waiters) + " waiters", holding({1, 5}, waiters),
          [this](Tools& tools, const std::string& key) { return dict_.keep(key, tools.leases[1], 2); });
  }

  /// Gives the child five holders, two of them with shortcuts: holder `which` has `level` shortcuts, and the next
  /// holder has one.
  Prepare holding_with_shortcuts(std::uint32_t level, std::size_t which, bool expired = false) {
    return [this, level, which, expired](Tools& tools, const std::string& key) {
      dict_.remove(key);
      for (std::size_t number = 0; number < 5; ++number) {
        if (number >= which && number < which + 2) give_next_number(key, number == which ? level : 1);
        tools.leases.emplace_back();
        if (take_one(key, tools.leases.back(), expired && number == which ? 0.001 : kLong) != HOLDFAST_OK)
          ::_exit(kSkip);
      }
      if (expired) ::usleep(5000);
    };
  }
  int take_one(const std::string& key, holdfast_lease& lease, double exptime) {
    return dict_.try_permits(key, HOLDFAST_SEMAPHORE, 1, kTotal, exptime, &lease);
  }
  /// Uses up fencing tokens until the next number gives its holder this many shortcuts.
  void give_next_number(const std::string& key, std::uint32_t level) {
    holdfast_lease lease{};
    do {
      if (take_one(key, lease, kLong) != HOLDFAST_OK) ::_exit(kSkip);
    } while (dict_.unlock(key, &lease) == HOLDFAST_OK &&
             shortcut_levels(dict_.segment().header().sequence + 1) != level);
  }

  void shortcuts() {
    for (const std::uint32_t level : {1U, 2U}) {
      const std::string with = " with " + std::to_string(level) + " shortcuts";
      for (const std::size_t which : {0U, 2U, 4U}) {
        add("release number " + std::to_string(which) + with, holding_with_shortcuts(level, which),
            [this, which](Tools& tools, const std::string& key) { return dict_.unlock(key, &tools.leases[which]); });
      }
      add("renew behind one" + with, holding_with_shortcuts(level, 2),
          [this](Tools& tools, const std::string& key) { return dict_.renew(key, tools.leases[0], 900); });
      add("explain one" + with, holding_with_shortcuts(level, 2),
          [this](Tools& tools, const std::string& key) { return dict_.explain(key, tools.leases[2], "why"); });
      add("acquire among expired holds" + with, holding_with_shortcuts(level, 2, true), acquiring(2));
      add(
          "acquire" + with,
          [this, level](Tools& tools, const std::string& key) {
            holding_with_shortcuts(level, 2)(tools, key);
            give_next_number(key, level);
          },
          acquiring(1));
      add(
          "acquire the first" + with,
          [this, level](Tools&, const std::string& key) {
            give_next_number("other", level);
            dict_.remove(key);
          },
          acquiring(1));
    }
  }

  void others() {
    const auto with = [this](const std::string& name, std::function<int(const std::string&)> run) {
      add(name, holding({1, 2, 1}, 2, 6), [run = std::move(run)](Tools&, const std::string& key) { return run(key); });
    };
    with("delete permits", [this](const std::string& key) { return dict_.remove(key); });
    with("set over permits", [this](const std::string& key) { return dict_.set(key, "value", 0, 2); });
    with("add over permits", [this](const std::string& key) { return dict_.add(key, "value"); });
    with("incr over permits", [this](const std::string& key) {
      double sum = 0;
      return dict_.incr(key, 1, &sum);
    });
    with("lock over permits", [this](const std::string& key) {
      holdfast_lease lease{};
      return dict_.try_lock(key, 600, &lease);
    });
    with("count permits",
         [this](const std::string& key) { return dict_.used(key) == 4 ? HOLDFAST_OK : HOLDFAST_INVALID; });
    with("holders of permits", [this](const std::string& key) {
      holdfast_holder holder{};
      return dict_.holder(key, &holder);
    });
    add("flush_expired of permits", holding({-1, -2, -1}),
        [this](Tools&, const std::string&) { return to_code(dict_.flush_expired()); });
    add(
        "lock over free permits",
        [this](Tools& tools, const std::string& key) {
          holding({3})(tools, key);
          dict_.unlock(key, &tools.leases[0]);
        },
        [this](Tools& tools, const std::string& key) { return dict_.try_lock(key, 600, &tools.lease); });
    add(
        "permits over a free lock",
        [this](Tools& tools, const std::string& key) {
          dict_.remove(key);
          if (dict_.try_lock(key, 600, &tools.lease) != HOLDFAST_OK) ::_exit(kSkip);
          dict_.unlock(key, &tools.lease);
        },
        acquiring(2));
  }

  Run waiting_for(std::uint32_t want) {
    return [this, want](Tools& tools, const std::string& key) {
      return dict_.wait_permits(key, HOLDFAST_SEMAPHORE, want, kTotal, 600, &tools.wait, &tools.lease);
    };
  }
  Prepare queued(std::vector<int> counts, std::uint32_t want, int before) {
    return with_waiter([this, counts, want, before](Tools& tools, const std::string& key) {
      holding(counts, before, 2)(tools, key);
      if (waiting_for(want)(tools, key) != HOLDFAST_LOCKED) ::_exit(kSkip);
    });
  }

  void waits() {
    add("wait for available permits", with_waiter(holding({1})), waiting_for(2));
    add("wait for permits", with_waiter(holding({1, 3})), waiting_for(3));
    add("wait for permits behind other waiters", with_waiter(holding({5}, 2, 2)), waiting_for(1));
    add("leave permits", queued({6}, 1, 0), leaving());
    add("leave permits to the next waiter", queued({5}, 2, 0), [this](Tools& tools, const std::string& key) {
      queue(key, 1, 1);
      return leaving()(tools, key);
    });
    add(
        "claim after a wake-up",
        [this](Tools& tools, const std::string& key) {
          queued({6}, 3, 0)(tools, key);
          dict_.unlock(key, &tools.leases[0]);
        },
        waiting_for(3));
  }

  /// Prepares an rwlock with one reader for each of `exptimes`. The first reader is the child. A negative exptime has
  /// already passed.
  Prepare reading(std::vector<double> exptimes, std::uint32_t waiters = 0, bool queued = false) {
    return with_waiter([this, exptimes = std::move(exptimes), waiters, queued](Tools& tools, const std::string& key) {
      dict_.remove(key);
      for (const double exptime : exptimes) {
        tools.leases.emplace_back();
        if (dict_.try_permits(key, HOLDFAST_RWLOCK, 1, 0, exptime < 0 ? 0.001 : exptime, &tools.leases.back()) !=
            HOLDFAST_OK)
          ::_exit(kSkip);
      }
      ::usleep(5000);
      queue(key, waiters, HOLDFAST_ALL_PERMITS);
      if (queued && upgrading(true)(tools, key) != HOLDFAST_LOCKED) ::_exit(kSkip);
    });
  }
  Run upgrading(bool waits) {
    return [this, waits](Tools& tools, const std::string& key) {
      return dict_.upgrade(key, tools.leases[0], waits ? &tools.wait : nullptr);
    };
  }

  void upgrades() {
    for (const std::uint32_t waiters : {0U, 2U})
      add("upgrade the only reader, " + std::to_string(waiters) + " waiters", reading({kLong}, waiters),
          upgrading(false));
    add("upgrade beside readers whose locks have expired", reading({kLong, -1, -1}), upgrading(false));
    add("upgrade beside a reader", reading({kLong, kLong}), upgrading(false));
    add("upgrade an expired lock", reading({-1, kLong}), upgrading(false));
    for (const std::uint32_t waiters : {0U, 2U})
      add("wait to upgrade, " + std::to_string(waiters) + " waiters", reading({kLong, kLong}, waiters),
          upgrading(true));
    add("leave an upgrade", reading({kLong, kLong}, 2, true), leaving());
    add("wait to upgrade beside another waiting reader", reading({kLong, kLong}, 0, true),
        [this](Tools& tools, const std::string& key) { return dict_.upgrade(key, tools.leases[1]); });
    add("release to a reader that waits to upgrade", reading({kLong, kLong}, 2, true), releasing(1));
    add(
        "upgrade when woken",
        [this](Tools& tools, const std::string& key) {
          reading({kLong, kLong}, 2, true)(tools, key);
          dict_.unlock(key, &tools.leases[1]);
        },
        upgrading(true));
  }

  void notes() {
    const auto explaining = [this](std::size_t length) {
      return [this, length](Tools& tools, const std::string& key) {
        return dict_.explain(key, tools.leases[0], std::string(length, 'w'));
      };
    };
    const auto locked = [this](std::size_t length) {
      return [this, length](Tools& tools, const std::string& key) {
        dict_.remove(key);
        tools.leases.emplace_back();
        if (dict_.try_lock(key, 600, &tools.leases[0]) != HOLDFAST_OK) ::_exit(kSkip);
        if (length != 0 && dict_.explain(key, tools.leases[0], std::string(length, 'o')) != HOLDFAST_OK) ::_exit(kSkip);
      };
    };
    for (const std::size_t before : {0U, 9U})
      for (const std::size_t after : {0U, 100U}) add("explain a lock", locked(before), explaining(after));
    add("unlock a lock with a reason", locked(20), releasing(0));
    add("delete a lock with a reason", locked(20),
        [this](Tools&, const std::string& key) { return dict_.remove(key); });
    add("renew a lock with a reason", locked(20),
        [this](Tools& tools, const std::string& key) { return dict_.renew(key, tools.leases[0], 50); });
    add(
        "lock an expired lock with a reason",
        [this, locked](Tools& tools, const std::string& key) {
          locked(20)(tools, key);
          dict_.expire(key, 0.001);
          ::usleep(5000);
        },
        [this](Tools& tools, const std::string& key) { return dict_.try_lock(key, 600, &tools.lease); });
    add("explain permits", holding({1, 2, 1}), explaining(50));
    add(
        "explain permits again",
        [this](Tools& tools, const std::string& key) {
          holding({1, 2, 1})(tools, key);
          if (dict_.explain(key, tools.leases[0], "before") != HOLDFAST_OK) ::_exit(kSkip);
        },
        explaining(0));
  }
};

}  // namespace

std::vector<Scenario> make_permits_scenarios(Victim& victim, const State& state, Random& random) {
  return made_by<PermitsMaker>(victim, state, random);
}

}  // namespace holdfast::crash
