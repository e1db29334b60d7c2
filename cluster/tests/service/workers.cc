#include "service/workers.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <stdexcept>

#include "dict/segment.h"
#include "etcd/etcd_server.h"
#include "gate/session.h"
#include "platform/platform.h"
#include "support/dict.h"
#include "support/waiting.h"

namespace holdfast::test {

namespace {

constexpr std::size_t kKeysMax = 64;
constexpr std::size_t kWorkersMax = 256;

std::int64_t now_ns() { return static_cast<std::int64_t>(platform::boottime_ns()); }
std::string name_of(int key) { return "key " + std::to_string(key); }

/// A token and a value in one word, so that a reader always gets a pair that was written together.
struct FencedWord {
  std::uint64_t bits;

  static constexpr int kValueBits = 24;
  static FencedWord make(std::uint64_t token, std::uint64_t value) { return {token << kValueBits | value}; }
  std::uint64_t token() const { return bits >> kValueBits; }
  std::uint64_t value() const { return bits & ((std::uint64_t{1} << kValueBits) - 1); }
};

/// A register that the holder of a lock reads and then writes.
class Register {
 public:
  /// Reads the value. From now on, the register refuses lower tokens. Returns false if it has seen a higher token.
  bool read(std::uint64_t token, std::uint64_t& value) {
    FencedWord word{fenced_.load()};
    while (word.token() < token)
      if (fenced_.compare_exchange_weak(word.bits, FencedWord::make(token, word.value()).bits)) break;
    value = word.value();
    return word.token() <= token;
  }
  bool write(std::uint64_t token, std::uint64_t value) {
    FencedWord word{fenced_.load()};
    while (word.token() <= token)
      if (fenced_.compare_exchange_weak(word.bits, FencedWord::make(token, value).bits)) return true;
    return false;
  }
  std::uint64_t read_unfenced() const { return unfenced_.load(); }
  void write_unfenced(std::uint64_t value) { unfenced_.store(value); }
  std::uint64_t last(bool fenced) const { return fenced ? FencedWord{fenced_.load()}.value() : unfenced_.load(); }

 private:
  std::atomic<std::uint64_t> fenced_{0};
  std::atomic<std::uint64_t> unfenced_{0};
};

/// A change of a register, with the times of the steps that it has reached.
struct Change {
  std::int64_t begin = 0;  // 0 until the register has been read
  std::uint64_t read = 0;
  bool tried = false;  // whether the worker tried to write
  bool refused = false;
  std::int64_t end = 0;  // 0 if the result of the write is unknown
};

struct Seat {
  std::atomic<std::size_t> inside{0};  // the number of the entry plus 1 between a read and the writes, and otherwise 0
  std::atomic<std::size_t> done{0};
};

/// The record of one section. Its worker writes it, and other processes read it afterwards.
struct Entry {
  int key = 0;
  int machine = 0;
  agent::LeaseId lease = 0;
  std::uint64_t token = 0;  // 0 if the worker did not get the lock
  std::int64_t asked = 0;
  std::int64_t from = 0;
  std::int64_t until = 0;
  Change fenced;
  Change unfenced;
};

}  // namespace

/// The beginning of the shared memory, before the entries.
struct Workers::Journal {
  std::atomic<bool> ending{false};
  std::atomic<std::size_t> used{0};
  std::array<Seat, kWorkersMax> seats;
  std::array<Register, kKeysMax> registers;

  Entry& entry(std::size_t number) { return reinterpret_cast<Entry*>(this + 1)[number]; }
  std::size_t entries(std::size_t most) const { return std::min(used.load(), most); }
};

/// A worker, in its own process.
class Workers::Worker {
 public:
  Worker(Journal& journal, const Work& work, std::size_t number, int machine)
      : journal_(journal),
        work_(work),
        seat_(journal.seats[number]),
        machine_(machine),
        random_(work.seed + number),
        dict_(kJobs, {.size = 1 << 20, .cluster = kCluster}) {}

  bool is_ready() const { return dict_.status == HOLDFAST_OK; }

  /// Makes one change under a lock. Returns false after the last entry.
  bool step() {
    const std::size_t number = journal_.used.fetch_add(1);
    if (journal_.ending.load() || number >= work_.most) return false;
    Entry& entry = journal_.entry(number);
    entry.key = static_cast<int>(below(work_.keys));
    entry.machine = machine_;
    entry.asked = now_ns();
    const std::string key = name_of(entry.key);
    holdfast_lease lease{};
    if (waiting_.lock(dict_, key, work_.patience, &lease) == HOLDFAST_OK) {
      be_inside(number, key, lease);
      leave(entry, key, lease);
      seat_.done.fetch_add(1);
    }
    ::usleep(static_cast<useconds_t>(below(work_.pause_us)));
    return true;
  }

 private:
  std::uint64_t below(int limit) { return random_() % static_cast<std::uint64_t>(limit); }

  /// If the lock is valid, records the time. Otherwise, returns false.
  bool look(Entry& entry, const std::string& key, const holdfast_lease& lease) {
    const std::int64_t looked = now_ns();
    if (dict_.remaining(key, lease) <= 0) return false;
    entry.until = looked;
    return true;
  }

  void be_inside(std::size_t number, const std::string& key, const holdfast_lease& lease) {
    Entry& entry = journal_.entry(number);
    entry.from = now_ns();
    entry.token = lease.sequence;
    const auto session = static_cast<agent::LeaseId>(holdfast::Session(dict_.segment()).lease());
    if (look(entry, key, lease)) entry.lease = session;
    Register& guarded = journal_.registers[static_cast<std::size_t>(entry.key)];
    Change& fenced = entry.fenced;
    Change& unfenced = entry.unfenced;
    fenced.begin = unfenced.begin = now_ns();
    fenced.refused = !guarded.read(entry.token, fenced.read);
    unfenced.read = guarded.read_unfenced();
    seat_.inside.store(number + 1);
    ::usleep(static_cast<useconds_t>(below(work_.section_us)));
    look(entry, key, lease);
    seat_.inside.store(0);
    fenced.tried = unfenced.tried = true;
    fenced.refused = fenced.refused || !guarded.write(entry.token, number + 1);
    guarded.write_unfenced(number + 1);
    fenced.end = unfenced.end = now_ns();
  }

  void leave(Entry& entry, const std::string& key, holdfast_lease& lease) {
    const std::int64_t left = now_ns();
    if (dict_.unlock(key, &lease) == HOLDFAST_OK) entry.until = left;
  }

  Journal& journal_;
  const Work& work_;
  Seat& seat_;
  const int machine_;
  std::mt19937_64 random_;
  Dict dict_;
  Waiting waiting_;
};

namespace {

void add(const std::vector<std::string>& more, std::vector<std::string>& to) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Workers::Workers(const Work& work)
    : work_(work), size_(sizeof(Journal) + work.most * sizeof(Entry)), journal_([this] {
        void* const memory =
            ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        return new (memory) Journal();
      }()) {
  if (work.keys > static_cast<int>(kKeysMax)) throw std::runtime_error("too many keys for the workers");
}

Workers::~Workers() {
  workers_.clear();
  ::munmap(journal_, size_);
}

std::unique_ptr<Child> Workers::run(std::size_t worker, const Machine& machine) {
  return std::make_unique<Child>([&](Channel&) {
    ::setenv("HOLDFAST_DIR", machine.directory().c_str(), 1);
    use_clock(machine.clock_file());
    Worker self(*journal_, work_, worker, machines_[worker]);
    if (!self.is_ready()) return 1;
    while (self.step()) continue;
    return 0;
  });
}

std::size_t Workers::start(const Machine& machine, int number) {
  if (workers_.size() == kWorkersMax) throw std::runtime_error("too many workers");
  machines_.push_back(number);
  workers_.push_back(run(workers_.size(), machine));
  return workers_.size() - 1;
}

void Workers::start_again(std::size_t worker, const Machine& machine) {
  journal_->seats[worker].inside.store(0);
  workers_[worker] = run(worker, machine);
}

bool Workers::go_on(std::size_t worker) {
  const Seat& seat = journal_->seats[worker];
  const std::size_t before = seat.done.load();
  workers_[worker]->signal(SIGCONT);
  return eventually([&] { return seat.done.load() > before; });
}

// If a worker leaves its section before the signal arrives, lets it continue, and chooses a different worker.
std::size_t Workers::stop_inside(int machine) {
  std::size_t found = kWorkersMax;
  const bool stopped = eventually([&] {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const std::size_t inside = journal_->seats[i].inside.load();
      if (inside == 0 || (machine >= 0 && machines_[i] != machine)) continue;
      workers_[i]->stop();
      found = i;
      if (journal_->seats[i].inside.load() == inside) return true;
      workers_[i]->signal(SIGCONT);
    }
    return false;
  });
  if (!stopped) throw std::runtime_error("no worker gets a lock");
  return found;
}

std::size_t Workers::kill_inside(int machine) {
  const std::size_t worker = stop_inside(machine);
  workers_[worker]->kill_and_wait();
  return worker;
}

std::size_t Workers::done(int machine) const {
  std::size_t done = 0;
  for (std::size_t i = 0; i < machines_.size(); ++i)
    if (machine < 0 || machines_[i] == machine) done += journal_->seats[i].done.load();
  return done;
}

bool Workers::get_on(std::size_t sections, int machine) const {
  const std::size_t before = done(machine);
  return eventually([&] { return done(machine) >= before + sections; });
}

void Workers::end() {
  journal_->ending.store(true);
  for (const auto& worker : workers_)
    if (const int status = worker->wait(); status != 0)
      throw std::runtime_error("a worker ended with " + std::to_string(status));
}

std::vector<Section> Workers::sections() const {
  std::vector<Section> sections;
  for (std::size_t i = 0; i < journal_->entries(work_.most); ++i) {
    const Entry& entry = journal_->entry(i);
    if (entry.token == 0) continue;
    sections.push_back(
        {{kJobs, name_of(entry.key)}, entry.machine, entry.lease, entry.token, entry.asked, entry.from, entry.until});
  }
  return sections;
}

// If a worker was killed during a write, the write counts if a read has returned the written value.
std::vector<Update> Workers::updates(int key, bool fenced) const {
  const auto change_of = [fenced](const Entry& entry) { return fenced ? entry.fenced : entry.unfenced; };
  std::set<std::uint64_t> seen{last(key, fenced)};
  const std::size_t count = journal_->entries(work_.most);
  for (std::size_t i = 0; i < count; ++i)
    if (journal_->entry(i).key == key) seen.insert(change_of(journal_->entry(i)).read);
  std::vector<Update> updates;
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = journal_->entry(i);
    const Change change = change_of(entry);
    if (entry.key != key || change.begin == 0) continue;
    const std::uint64_t value = i + 1;
    if (change.end != 0)
      updates.push_back({change.read, change.refused ? change.read : value, change.begin, change.end});
    else if (change.tried && seen.contains(value))
      updates.push_back({change.read, value, change.begin, std::numeric_limits<std::int64_t>::max()});
  }
  return updates;
}

std::uint64_t Workers::last(int key, bool fenced) const {
  return journal_->registers[static_cast<std::size_t>(key)].last(fenced);
}

std::size_t Workers::refused() const {
  std::size_t refused = 0;
  for (std::size_t i = 0; i < journal_->entries(work_.most); ++i) refused += journal_->entry(i).fenced.refused ? 1 : 0;
  return refused;
}

std::vector<std::string> Workers::register_errors() const {
  std::vector<std::string> errors;
  for (int key = 0; key < work_.keys; ++key) add(check_updates(updates(key, true), 0, last(key, true)), errors);
  return errors;
}

std::vector<std::string> Workers::errors(const StoreHistory& store) const {
  std::vector<std::string> errors = check_sections(sections());
  add(register_errors(), errors);
  add(store.errors(), errors);
  add(store.check_tokens(sections()), errors);
  return errors;
}

std::size_t Workers::lost_without_fencing() const {
  std::size_t lost = 0;
  for (int key = 0; key < work_.keys; ++key) lost += count_lost(updates(key, false), 0, last(key, false));
  return lost;
}

StoreHistory history_of(EtcdServer& etcd, const std::string& space) {
  StoreHistory history(space);
  for (const agent::Record& event : etcd.history(space + "/")) history.add(event);
  return history;
}

}  // namespace holdfast::test
