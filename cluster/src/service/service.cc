#include "service/service.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine.h"
#include "etcd/etcd_store.h"
#include "etcd/identity.h"
#include "etcd/loop.h"
#include "gate/question.h"
#include "service/notify.h"
#include "service/shared_machine.h"

namespace holdfast::agent {

namespace {

/// The exit status after another agent has taken over. It keeps a service manager from restarting this agent.
constexpr int kSuperseded = 3;

/// Prints a message from a running agent. Adds the time if the output is a file. Journals and supervisors add the time
/// themselves.
void report(const std::string& sentence) {
  struct stat info {};
  const bool in_file = ::fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode);
  say(in_file ? fmt::format("{:%Y-%m-%dT%H:%M:%S%z}: {}", fmt::localtime(std::time(nullptr)), sentence) : sentence);
}

class SystemClock final : public Clock {
 public:
  Milliseconds boot_ms() const override { return etcd::boottime_ms(); }
  std::int64_t boot_us() const override { return static_cast<std::int64_t>(platform::boottime_ns() / 1000); }
  Milliseconds wall_ms() const override {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return Milliseconds{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
  }
};

etcd::Options store_options(const Config& config, etcd::Identity& identity) {
  etcd::Options options;
  options.identity = &identity;
  options.endpoints = config.endpoints;
  options.tls = {config.ca, config.cert, config.key};
  options.credentials = {config.user, config.password_file};
  options.timeout_ms = etcd::Options::timeout_for(config.settings.ttl_s);
  options.seed = platform::random_number();
  options.complain = &report;
  return options;
}

/// Returns why no store is known yet, although some endpoints have named one. Returns an empty string if no endpoint
/// names a store.
std::string doubt_about(const etcd::Identity& identity, const std::vector<etcd::EndpointVersion>& members,
                        Milliseconds now) {
  const etcd::EndpointVersion* silent = nullptr;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string id = identity.named(i, now);
    if (id.empty() && silent == nullptr) silent = &members[i];
    if (id.empty()) continue;
    if (!first) first = i;
    if (id != identity.named(*first, now))
      return fmt::format(
          "etcd at {} belongs to a different etcd cluster than {}; configure the endpoints of only one cluster",
          members[i].url, members[*first].url);
  }
  if (!first || silent == nullptr) return {};
  const std::string id = identity.named(*first, now);
  return fmt::format(
      "too few endpoints belong to etcd cluster {}: {} of {}, expected {}: {}", etcd::shown_id(id),
      identity.count(id, now), members.size(), identity.majority(),
      silent->trouble.empty() ? "etcd at " + silent->url + " did not report its cluster" : silent->trouble);
}

/// A running agent.
class Service {
 public:
  /// `known`: the id of the store, as saved in `memory` by an earlier agent.
  Service(const Config& config, World& world, Signals& signals, bool drains, const StoreMemory& memory,
          const std::string& known)
      : config_(config),
        directory_(world.directory().path()),
        drains_(drains),
        signals_(signals),
        memory_(memory),
        remembered_(known),
        identity_(config.endpoints.size(), known, config.settings.ttl_s * 1000),
        store_(loop_, store_options(config, identity_)),
        machine_(world, config.cluster),
        engine_(store_, machine_, clock_, config.space, config.settings, &report) {
    engine_.describe_store([this] { return describe_store(); });
    engine_.on_accept([this](std::uint64_t id) { return accept(std::to_string(id)); });
    if (const std::string url = endpoint_in_clear(config); !url.empty())
      warn(fmt::format("the password of etcd's user {} is sent to {} without encryption; use https://", config.user,
                       url));
    if (!machine_.trouble().empty()) warn(machine_.trouble() + ": new dictionaries are found only once a second");
    for (const int fd : machine_.descriptors()) loop_.watch(fd, EPOLLIN, [this](std::uint32_t) { step(); });
    loop_.watch(signals_.descriptor(), EPOLLIN, [this](std::uint32_t) {
      signals_.take();
      stop();
    });
  }

  int run() {
    ask_versions();
    while (!ended_) {
      step();
      const Milliseconds now = clock_.boot_ms();
      const Milliseconds due = std::min(engine_.due(), machine_.due());
      loop_.turn(std::clamp<Milliseconds>(due - now, 0, kLongestTurnMs));
    }
    return status_;
  }

 private:
  // The benchmark "processor of an idle agent" depends on kLongestTurnMs, kStep (agent/housekeeping.cc) and kIdleMs
  // (service/shared_machine.cc).
  static constexpr Milliseconds kLongestTurnMs = 1000;
  static constexpr Milliseconds kStopMs = 3000;
  static constexpr Milliseconds kLeaveMs = 500;
  static constexpr Milliseconds kAskAgainMs = 2000;
  static constexpr Milliseconds kAskLaterMs = 60'000;  // how often a member is asked once the agent is working

  // Asks all members for their versions, repeatedly, because a different store may appear or disappear.
  void ask_versions() {
    const bool is_time = clock_.boot_ms() >= next_check_ || identity_.stranger(clock_.boot_ms());
    if (begun_ && !is_time) {
      loop_.after(kAskAgainMs, [this] { ask_versions(); });
      return;
    }
    store_.versions([this](const std::vector<etcd::EndpointVersion>& members) { judge(members); });
  }

  // Begins to work, unless the store is unreachable or, if the configuration requires an etcd version in which the bug
  // is fixed, too old. In these cases, waits, because the store may be updated. If a member did not answer, asks it
  // again later.
  void judge(const std::vector<etcd::EndpointVersion>& members) {
    const auto is_known = [](const etcd::EndpointVersion& member) { return member.version.has_value(); };
    const Milliseconds now = clock_.boot_ms();
    bool any_early = false;
    for (const etcd::EndpointVersion& member : members) {
      if (!member.version || !member.version->revokes_early()) continue;
      any_early = true;
      const std::string sentence = fmt::format(
          "etcd {} at {} may end a lease early after a stopped leader resumes (fixed in 3.4.31 and 3.5.13); "
          "rely on fencing tokens",
          member.version->text, member.url);
      if (config_.require_fixed_etcd && !begun_) {
        hold_back(sentence + "; require_fixed_etcd is set");
        break;
      }
      warn(sentence);
    }
    const std::string doubt = identity_.known().empty() ? doubt_about(identity_, members, now) : std::string();
    if (!doubt.empty()) begun_ ? warn(doubt) : hold_back(doubt);
    warn_of_strangers(now);
    const bool any_known = std::any_of(members.begin(), members.end(), is_known);
    if (!any_known && config_.require_fixed_etcd && !begun_)
      hold_back("the version of etcd is unknown: " + members.front().trouble + "; require_fixed_etcd is set");
    if (doubt.empty() && (!config_.require_fixed_etcd || (any_known && !any_early))) begin();
    next_check_ = now + (any_known && begun_ ? kAskLaterMs : kAskAgainMs);
    loop_.after(kAskAgainMs, [this] { ask_versions(); });
  }

  // --- which store ---

  void warn_of_strangers(Milliseconds now) {
    const auto stranger = identity_.stranger(now);
    if (!stranger || identity_.known().empty()) return;
    const std::string id = etcd::shown_id(identity_.named(*stranger, now));
    warn(fmt::format(
        "etcd at {} belongs to a different etcd cluster: {}, expected {}; if the store was replaced on purpose, "
        "run holdfast cluster accept-new-store {} {}",
        config_.endpoints[*stranger], id, etcd::shown_id(identity_.known()), config_.cluster, id));
  }

  /// Saves the id of the known store.
  void remember() {
    const std::string& id = identity_.known();
    if (id == remembered_) return;
    if (!remembered_.empty()) {
      const std::string sentence =
          fmt::format("the store is now etcd cluster {}; it was {}", etcd::shown_id(id), etcd::shown_id(remembered_));
      report(sentence);
      engine_.store_changed(sentence);
    }
    remembered_ = id;
    if (const Status failed = memory_.write(id); !failed.ok()) warn(failed.message);
  }

  Figures describe_store() const {
    const auto number = [](const std::string& id) { return std::strtoull(id.c_str(), nullptr, 10); };
    const Milliseconds now = clock_.boot_ms();
    Figures figures;
    if (!identity_.known().empty()) figures.emplace_back("store_cluster", number(identity_.known()));
    if (const auto stranger = identity_.stranger(now))
      figures.emplace_back("store_refused", number(identity_.named(*stranger, now)));
    return figures;
  }

  Reply accept(const std::string& id) {
    using Accepted = etcd::Identity::Accepted;
    const Accepted accepted = identity_.accept(id, clock_.boot_ms());
    Reply reply;
    reply.code = accepted == Accepted::done || accepted == Accepted::later ? Reply::Code::yes : Reply::Code::no;
    if (accepted == Accepted::later)
      reply.sentence =
          fmt::format("in {} s, when the last lease from the previous store has ended", config_.settings.ttl_s);
    else if (accepted == Accepted::unnamed)
      reply.sentence = "no endpoint belongs to that store; see \"holdfast cluster status\"";
    else if (accepted == Accepted::outvoted)
      reply.sentence = "most endpoints belong to the known store; remove the others from \"endpoints\"";
    return reply;
  }

  void warn(const std::string& sentence) {
    if (warned_.insert(sentence).second) report("warning: " + sentence);
  }

  void hold_back(const std::string& sentence) {
    if (sentence == held_back_) return;
    held_back_ = sentence;
    report(sentence);
    engine_.hold_back(sentence);
    notify_manager("READY=1");
    notify_manager("STATUS=" + sentence);
  }

  void begin() {
    if (begun_ || stopping_) return;
    begun_ = true;
    engine_.start();
    notify_manager("READY=1");
  }

  void step() {
    machine_.turn();
    if (machine_.is_abandoned()) return end("another agent took over and has ended", EXIT_FAILURE);
    if (machine_.superseded()) return end("another agent has taken over", kSuperseded);
    if (machine_.has_lost_its_directory())
      return leave(
          fmt::format("the runtime directory {} was removed or replaced: programs can no longer reach this "
                      "agent; start the agent again",
                      directory_));
    // A held lock in the deleted dictionary is valid until its deadline, and the next agent would not know about it.
    if (machine_.take_lost_file() && (!begun_ || engine_.vacate()))
      return leave(
          "the file of a dictionary was deleted: no program can open it while this agent runs; start the agent "
          "again");
    remember();
    if (!begun_) engine_.answer();
    if (stopping_ || !begun_) return;
    engine_.step();
    report_lease();
    if (draining_ && engine_.drained()) give_back();
  }

  /// Reports the loss of a lease with its reason, and the start of a new lease, once each. Both may happen between two
  /// steps.
  void report_lease() {
    const Keeper& keeper = engine_.keeper();
    if (std::exchange(reported_losses_, keeper.losses()) != keeper.losses()) {
      reported_lease_ = 0;
      report_to_all(fmt::format("cluster {}: the lease is lost: {}", config_.cluster, keeper.why_lost()));
    }
    if (!keeper.alive() || reported_lease_ != 0) return;
    reported_lease_ = machine_.session().lease;
    report_to_all(fmt::format("cluster {}: this machine has lease {:016x}", config_.cluster, reported_lease_));
  }

  static void report_to_all(const std::string& sentence) {
    report(sentence);
    notify_manager("STATUS=" + sentence);
  }

  void stop() {
    if (stopping_) return end("stopped by a second signal", EXIT_FAILURE);
    notify_manager("STOPPING=1");
    if (!begun_) return end("", EXIT_SUCCESS);
    if (engine_.vacate()) return give_back();
    if (!drains_ || draining_) return end("locks are held: the lease stays for the next agent", EXIT_SUCCESS);
    report("locks are held: waiting for their release, and taking no new ones");
    draining_ = true;
    engine_.drain();
  }

  // Exits, so that the service manager starts a new agent, which serves the current directory. The new agent
  // immediately gets the locks that nobody holds. The other locks have holders in the old directory, so the new agent
  // cannot get them until the lease ends.
  void leave(const std::string& sentence) {
    if (leaving_) return;
    leaving_ = true;
    report(sentence);
    notify_manager("STOPPING=1");
    if (!begun_ || stopping_ || !engine_.vacate()) return end("", EXIT_FAILURE);
    give_back(kLeaveMs, EXIT_FAILURE);
  }

  void give_back(Milliseconds patience = kStopMs, int status = EXIT_SUCCESS) {
    stopping_ = true;
    loop_.after(patience, [this, status] { end("the store did not answer in time: the lease will expire", status); });
    engine_.stop([this, status] { end("", status); });
  }

  void end(const std::string& sentence, int status) {
    if (ended_) return;
    if (!sentence.empty()) report(sentence);
    ended_ = true;
    status_ = status;
  }

  const Config& config_;
  const std::string directory_;
  const bool drains_;
  SystemClock clock_;
  Signals& signals_;
  const StoreMemory& memory_;
  std::string remembered_;
  etcd::Identity identity_;
  etcd::Loop loop_;
  etcd::EtcdStore store_;
  SharedMachine machine_;
  Engine engine_;
  bool begun_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  bool leaving_ = false;
  bool ended_ = false;
  Milliseconds next_check_ = 0;
  std::uint64_t reported_losses_ = 0;
  LeaseId reported_lease_ = 0;
  std::string held_back_;
  std::set<std::string> warned_;
  int status_ = EXIT_SUCCESS;
};

}  // namespace

void say(const std::string& sentence) {
  const std::string line = "holdfast-agent: " + sentence + "\n";
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

Signals::Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  ::signal(SIGPIPE, SIG_IGN);  // report() may raise it, and so may libraries that connect to the store
  ::signal(SIGXFSZ, SIG_IGN);  // so that writing beyond ulimit -f fails with an error
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = platform::FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Signals::take() {
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) continue;
}

// Keeps an idle connection to the other agent, which ends when that agent exits. If another agent has taken over by
// then, it has its own socket, to which the loop connects next.
bool await_vacancy(const RuntimeDirectory& directory, const std::string& cluster, const Signals& signals) {
  while (auto other = connect_agent(directory, cluster)) {
    std::array<pollfd, 2> both{{{other->get(), POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
    ::poll(both.data(), both.size(), -1);
    if (both[1].revents != 0) return false;
  }
  return true;
}

int serve(const Config& config, World& world, Signals& signals, bool drains, const StoreMemory& memory,
          const std::string& known) {
  return Service(config, world, signals, drains, memory, known).run();
}

}  // namespace holdfast::agent
