// The program holdfast-agent: one for each world and cluster. "holdfast agent" runs it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine.h"
#include "base/name.h"
#include "base/version.h"
#include "etcd/etcd_store.h"
#include "etcd/loop.h"
#include "service/config.h"
#include "service/notify.h"
#include "service/shared_machine.h"
#include "service/standby.h"
#include "world/world.h"

namespace holdfast::agent {

namespace {

constexpr int kUsageError = 2;
/// Another agent acts for this machine now. A manager that starts services anew should not start this one.
constexpr int kSuperseded = 3;

constexpr const char* kFooter =
    R"(It serves the programs of the same user, or of the same HOLDFAST_DIR. TERM ends it: if nobody
holds a lock its lease ends with it, else the lease stays for the next agent.

Exit status: 0 after TERM, INT or HUP; 1 a fault, a second signal, or its runtime directory was
removed: start it again; 2 the command line or the configuration is wrong; 3 another agent has
taken over.)";

/// A line on standard error in one write. A reader that is gone or does not read must not end the agent, or stop it:
/// then nothing is said.
void say(const std::string& sentence) {
  const std::string line = "holdfast-agent: " + sentence + "\n";
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

/// What a running agent tells. In a file with the time: journals and supervisors stamp lines themselves.
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

/// TERM, INT and HUP as a descriptor, from its construction on. REQUIRES: there is one thread.
class Signals {
 public:
  Signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
    ::signal(SIGPIPE, SIG_IGN);  // of report(), and of the libraries that speak with the store
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    fd_ = platform::FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int descriptor() const noexcept { return fd_.get(); }
  void take() {
    signalfd_siginfo info;
    while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) continue;
  }

 private:
  platform::FileDescriptor fd_;
};

etcd::Options store_options(const Config& config) {
  etcd::Options options;
  options.endpoints = config.endpoints;
  options.tls = {config.ca, config.cert, config.key};
  options.credentials = {config.user, config.password_file};
  options.timeout_ms = etcd::Options::timeout_for(config.settings.ttl_s);
  options.lease_ms = config.settings.ttl_s * 1000;
  options.seed = platform::random_number();
  options.complain = &report;
  return options;
}

/// A sentence if they are of more than one cluster: two machines could have one lock then.
std::string strangers_among(const std::vector<etcd::EndpointVersion>& members) {
  const etcd::EndpointVersion* known = nullptr;
  for (const etcd::EndpointVersion& member : members) {
    if (member.cluster.empty()) continue;
    if (known == nullptr) known = &member;
    if (member.cluster != known->cluster)
      return fmt::format("etcd at {} is of another cluster than etcd at {}: give endpoints of one", member.url,
                         known->url);
  }
  return {};
}

/// One agent, from its start to its end.
class Service {
 public:
  Service(const Config& config, World& world, Signals& signals, bool drains)
      : config_(config),
        directory_(world.directory().path()),
        drains_(drains),
        signals_(signals),
        store_(loop_, store_options(config)),
        machine_(world, config.cluster),
        engine_(store_, machine_, clock_, config.space, config.settings, &report) {
    if (!machine_.trouble().empty()) warn(machine_.trouble() + ": new dictionaries are found once a second");
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
  static constexpr Milliseconds kLongestTurnMs = 1000;
  static constexpr Milliseconds kStopMs = 3000;
  static constexpr Milliseconds kLeaveMs = 500;
  static constexpr Milliseconds kAskAgainMs = 2000;
  static constexpr Milliseconds kAskLaterMs = 60'000;  // a member, once the agent works

  void ask_versions() {
    store_.versions([this](const std::vector<etcd::EndpointVersion>& members) { judge(members); });
  }

  // A store that is away is waited for, and so is one that is too old, if that counts: it may be updated. A member that
  // did not answer is asked again later.
  void judge(const std::vector<etcd::EndpointVersion>& members) {
    const auto is_known = [](const etcd::EndpointVersion& member) { return member.version.has_value(); };
    bool any_early = false;
    for (const etcd::EndpointVersion& member : members) {
      if (!member.version || !member.version->revokes_early()) continue;
      any_early = true;
      const std::string sentence = fmt::format(
          "etcd {} at {} may end a lease early after a stopped leader goes on (mended in 3.4.31 and 3.5.13): "
          "rely on fencing numbers",
          member.version->text, member.url);
      if (config_.require_fixed_etcd && !begun_) {
        hold_back(sentence + "; require_fixed_etcd is set");
        break;
      }
      warn(sentence);
    }
    const std::string strangers = strangers_among(members);
    if (!strangers.empty()) begun_ ? warn(strangers) : hold_back(strangers);
    const bool any_known = std::any_of(members.begin(), members.end(), is_known);
    if (!any_known && config_.require_fixed_etcd && !begun_)
      hold_back("the version of etcd is not known: " + members.front().trouble + "; require_fixed_etcd is set");
    if (strangers.empty() && (!config_.require_fixed_etcd || (any_known && !any_early))) begin();
    if (!std::all_of(members.begin(), members.end(), is_known) || !begun_)
      loop_.after(any_known && begun_ ? kAskLaterMs : kAskAgainMs, [this] { ask_versions(); });
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
    if (machine_.is_abandoned())
      return end("another agent has acted for this machine, and lives no more", EXIT_FAILURE);
    if (machine_.superseded()) return end("another agent acts for this machine now", kSuperseded);
    if (machine_.has_lost_its_directory()) return leave();
    if (!begun_) engine_.answer();
    if (stopping_ || !begun_) return;
    engine_.step();
    tell();
    if (draining_ && engine_.drained()) give_back();
  }

  /// Says once what changed: that a lease is lost, and why, and that there is one. Between two steps both may be.
  void tell() {
    const Keeper& keeper = engine_.keeper();
    if (std::exchange(told_losses_, keeper.losses()) != keeper.losses()) {
      told_lease_ = 0;
      tell(fmt::format("cluster {}: the lease is lost: {}", config_.cluster, keeper.why_lost()));
    }
    if (!keeper.alive() || told_lease_ != 0) return;
    told_lease_ = machine_.session().lease;
    tell(fmt::format("cluster {}: this machine has lease {:016x}", config_.cluster, told_lease_));
  }

  static void tell(const std::string& sentence) {
    report(sentence);
    notify_manager("STATUS=" + sentence);
  }

  void stop() {
    if (stopping_) return end("stopped by a second signal", EXIT_FAILURE);
    notify_manager("STOPPING=1");
    if (!begun_) return end("", EXIT_SUCCESS);
    if (engine_.vacate()) return give_back();
    if (!drains_ || draining_) return end("locks are held: the lease stays for the next agent", EXIT_SUCCESS);
    report("locks are held: waiting for their release, and for no new one");
    draining_ = true;
    engine_.drain();
  }

  // Another agent, which the manager starts, serves the directory that is there now. Locks that nobody holds are free
  // for it at once; others have their holders in the old directory until the lease ends.
  void leave() {
    if (leaving_) return;
    leaving_ = true;
    report("the runtime directory " + directory_ +
           " was removed or replaced: no program can reach this agent any more; start the agent again");
    notify_manager("STOPPING=1");
    if (!begun_ || stopping_ || !engine_.vacate()) return end("", EXIT_FAILURE);
    give_back(kLeaveMs, EXIT_FAILURE);
  }

  void give_back(Milliseconds patience = kStopMs, int status = EXIT_SUCCESS) {
    stopping_ = true;
    loop_.after(patience,
                [this, status] { end("the store did not answer in time: the lease ends by itself", status); });
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
  etcd::Loop loop_;
  etcd::EtcdStore store_;
  SharedMachine machine_;
  Engine engine_;
  bool begun_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  bool leaving_ = false;
  bool ended_ = false;
  std::uint64_t told_losses_ = 0;
  LeaseId told_lease_ = 0;
  std::string held_back_;
  std::set<std::string> warned_;
  int status_ = EXIT_SUCCESS;
};

/// What the command line says in place of the file.
struct Given {
  std::string cluster;
  std::string path;
  std::vector<std::string> endpoints;
  std::optional<std::string> space;
  std::optional<std::int64_t> ttl_s;
  bool drains = false;
  bool stands_by = false;
};

Expected<Config> config_of(const Given& given) {
  if (Status bad = check_cluster_name(given.cluster); !bad.ok()) return bad;
  Config config = default_config(given.cluster);
  if (given.endpoints.empty() || !given.path.empty()) {
    auto read = read_config(given.cluster, given.path.empty() ? config_path(given.cluster) : given.path);
    if (!read && given.path.empty() && read.status().code == Code::not_found)
      return Status{Code::not_found, read.status().message + "; --etcd URL does without"};
    if (!read) return read;
    config = *read;
  }
  if (!given.endpoints.empty()) config.endpoints = given.endpoints;
  if (given.space) config.space = *given.space;
  if (given.ttl_s) config.settings.ttl_s = *given.ttl_s;
  if (const Status bad = check_config(config, "the command line"); !bad.ok()) return bad;
  return config;
}

void describe(CLI::App& app, Given& given) {
  app.set_version_flag("--version", std::string("holdfast-agent ") + kVersion, "Print the version and exit");
  app.add_option("CLUSTER", given.cluster, "Name of the cluster")->required();
  app.add_option("--config", given.path, "Configuration; default: /etc/holdfast/CLUSTER.json")->type_name("FILE");
  app.add_option("--etcd", given.endpoints, "Servers, separated by commas, in place of the file's")
      ->delimiter(',')
      ->type_name("URL");
  app.add_option("--namespace", given.space, "Of all keys at etcd; default: holdfast/CLUSTER")->type_name("PREFIX");
  app.add_option("--ttl", given.ttl_s, "Seconds after which others may have the locks of a lost machine; default: 10")
      ->check(CLI::Range(2, 3600))
      ->type_name("SECONDS");
  app.add_flag("--drain", given.drains, "At TERM, wait until no lock is held, and get no new one")
      ->disable_flag_override();
  app.add_flag("--standby", given.stands_by, "While another agent acts for this machine, wait for its end")
      ->disable_flag_override();
  app.footer(kFooter);
}

int run(int count, char** values) {
  CLI::App app("Keeps the locks of a cluster for the programs of this machine.", "holdfast agent");
  Given given;
  describe(app, given);
  try {
    app.parse(count, values);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    say(fmt::format("{}\nTry \"holdfast agent --help\".", error.what()));
    return kUsageError;
  }
  auto config = config_of(given);
  if (!config) {
    say(config.status().message);
    return kUsageError;
  }
  auto world = World::current();
  if (!world || (*world)->token() == kNobody) {
    say(world ? World::last_failure().message : world.status().message);
    return EXIT_FAILURE;
  }
  Signals signals;
  if (given.stands_by) {  // it may wait for longer than a manager waits for a start
    notify_manager("READY=1");
    notify_manager("STATUS=cluster " + config->cluster + ": waits for the end of the agent that acts for this machine");
    if (!await_vacancy((*world)->directory(), config->cluster, signals.descriptor())) return EXIT_SUCCESS;
  }
  return Service(*config, **world, signals, given.drains).run();
}

}  // namespace

}  // namespace holdfast::agent

int main(int count, char** values) try {
  return holdfast::agent::run(count, values);
} catch (const std::exception& error) {
  holdfast::agent::say(error.what());
  return EXIT_FAILURE;
}
