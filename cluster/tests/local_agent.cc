// An agent without a store, for tests of a single machine. It gives the machine every lock that its programs want.
//
//   local_agent DICTIONARY...
//
// Serves these dictionaries when they exist. Answers each question about a lock with "no other machine has it".
// Executes the lines of its standard input, and prints "done" after each line:
//
//   begin [SECONDS]   begins a new session of SECONDS; default: a day
//   lose              ends the session
//   stand KEY         gives the lock to this machine, now and in each later session
//   withdraw KEY      waits for the lock and takes it from this machine; from then on, a different machine has it
//   refuse KEY        from now on, a different machine has the lock
//   ignore KEY        from now on, the store does not answer questions about the lock
//   allow KEY         reverts withdraw, refuse and ignore
//   leave, attend     stops serving the dictionaries, or serves them again
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/handle.h"
#include "gate/cluster_lock.h"
#include "gate/question.h"
#include "holdfast.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast {
namespace {

constexpr int kRoundMs = 50;         // interval between checks, because hints may be lost
constexpr int kQuestionMs = 1000;    // time limit from a connection to its question
constexpr std::uint64_t kLease = 1;  // any number, because no store compares leases
constexpr std::uint64_t kDayMs = 86'400'000;
constexpr double kPatience = 30;  // seconds that withdraw() waits for the lock

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "local_agent: %s: %s\n", what.c_str(), holdfast_error());
  std::exit(1);
}

/// Answers questions (gate/question.h).
class Answerer {
 public:
  int descriptor() const { return listener_.get(); }

  /// Listens for questions about the cluster, unless this object already does.
  void listen_for(const RuntimeDirectory& directory, const std::string& cluster) {
    if (listener_) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = agent_socket(directory, cluster);
    path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    listener_ = platform::FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::unlink(path.c_str());
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0)
      fail("cannot listen");
  }

  void answer_all() const {
    constexpr std::string_view kAnswer = "code=no\n";
    for (;;) {
      const platform::FileDescriptor asker(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!asker) return;
      pollfd asked{asker.get(), POLLIN, 0};
      ::poll(&asked, 1, kQuestionMs);
      // Reads all data, because closing a socket with unread data would discard the answer.
      std::array<char, 4096> question;
      ::recv(asker.get(), question.data(), question.size(), MSG_DONTWAIT);
      ::send(asker.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    }
  }

 private:
  platform::FileDescriptor listener_;
};

class LocalAgent {
 public:
  explicit LocalAgent(std::span<char*> names) : names_(names.begin(), names.end()) {
    if (parker_ == nullptr) fail("cannot create a parker");
    waiter_ = holdfast_waiter_open(parker_);
    contender_ = holdfast_waiter_open(parker_);
  }

  /// Runs until standard input ends.
  void run() {
    std::string text;
    for (;;) {
      attend_all();
      listen();
      std::array<pollfd, 3> sources{
          {{STDIN_FILENO, POLLIN, 0}, {holdfast_parker_fd(parker_), POLLIN, 0}, {answerer_.descriptor(), POLLIN, 0}}};
      ::poll(sources.data(), sources.size(), kRoundMs);
      std::uint32_t woken = 0;
      while (holdfast_parker_sleep(parker_, 0, &woken, 1) > 0) {
      }
      serve_all();
      answerer_.answer_all();
      if ((sources[0].revents & (POLLIN | POLLHUP)) != 0 && !obey_input(text)) return;
    }
  }

 private:
  struct Attended {
    std::string name;
    holdfast_dict* handle;
  };
  static Dictionary& dictionary(const Attended& attended) { return capi::unwrap(attended.handle); }

  World& world() { return **World::current(); }

  // The waiter gets notifications only while it waits.
  void listen() { reinterpret_cast<Parker*>(parker_)->begin(waiter_, world().token()); }

  // While this function runs, dictionaries may be created, or created again after a removal.
  void attend_all() {
    for (const std::string& name : names_) {
      const bool known = std::any_of(attended_.begin(), attended_.end(),
                                     [&](const Attended& attended) { return attended.name == name; });
      holdfast_dict* handle = nullptr;
      if (!known && holdfast_attach(name.data(), name.size(), &handle) == HOLDFAST_OK)
        attended_.push_back({name, handle});
    }
    if (!attends_) return;
    for (const Attended& attended : attended_) {
      Segment* const segment = dictionary(attended).segment(EpochGuard());
      if (segment != nullptr && segment->gate() != nullptr)
        answerer_.listen_for(dictionary(attended).world().directory(), segment->gate_name());
      if (segment == nullptr || segment->gate() == nullptr || Session(*segment).agent() == world().token()) continue;
      Session(*segment).attend(Session(*segment).agent(), world().token(), waiter_);
      if (has_session_) begin(*segment);
    }
  }

  template <class Act>
  void at_each(Act&& act) {
    for (const Attended& attended : attended_)
      if (Segment* const segment = dictionary(attended).segment(EpochGuard());
          segment != nullptr && segment->gate() != nullptr)
        act(dictionary(attended), *segment);
  }

  void begin(Segment& segment) {
    const Session session = Session(segment);
    const std::uint16_t epoch = session.now().epoch();
    session.lose(epoch);
    session.begin(session.now(), static_cast<std::uint16_t>(epoch + 1), kLease, boottime_ms() + session_ms_);
    at_each([&](Dictionary& at, Segment& its) {
      for (const std::string& key : standing_)
        if (&its == &segment) stand_now(at, segment, key);
    });
  }

  void stand_now(Dictionary& at, const Segment& segment, const std::string& key) {
    const SessionWord now = Session(segment).now();
    if (!now.lost()) stand(at, key, now.epoch(), ++revision_);
  }

  void serve_all() {
    if (!attends_) return;
    at_each([&](Dictionary& at, Segment& segment) {
      std::array<std::uint64_t, kWants> hashes{};
      Session(segment).take_wants(hashes);
      for (const std::string& key : wanted_keys(at, {})) serve(at, segment, key);
    });
  }

  void serve(Dictionary& at, const Segment& segment, const std::string& key) {
    if (ignored_.contains(key) || Session(segment).now().lost()) return;
    if (refused_.contains(key))
      refuse(at, key, Code::elsewhere);
    else
      stand_now(at, segment, key);
  }

  bool obey_input(std::string& text) {
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count <= 0) return false;
    text.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      obey(text.substr(0, end));
      text.erase(0, end + 1);
      std::puts("done");
      std::fflush(stdout);
    }
    return true;
  }

  void obey(const std::string& line) {
    attend_all();
    const std::string command = line.substr(0, line.find(' '));
    const std::string rest = line.size() > command.size() ? line.substr(command.size() + 1) : "";
    if (command == "begin") {
      has_session_ = true;
      session_ms_ = rest.empty() ? kDayMs : static_cast<std::uint64_t>(std::stod(rest) * 1e3);
      at_each([&](Dictionary&, Segment& segment) { begin(segment); });
    } else if (command == "lose") {
      has_session_ = false;
      at_each([&](Dictionary&, Segment& segment) { Session(segment).lose(Session(segment).now().epoch()); });
    } else if (command == "leave") {
      attends_ = false;
      at_each([&](Dictionary&, Segment& segment) { Session(segment).attend(Session(segment).agent(), kNobody, 0); });
    } else if (command == "attend") {
      attends_ = true;
    } else {
      obey_for_key(command, rest);
    }
    attend_all();
    serve_all();
  }

  void obey_for_key(const std::string& command, const std::string& key) {
    if (command == "allow") {
      refused_.erase(key);
      ignored_.erase(key);
    } else if (command == "ignore") {
      ignored_.insert(key);
    } else if (command == "refuse") {
      refused_.insert(key);
    } else if (command == "stand") {
      standing_.insert(key);
      at_each([&](Dictionary& at, Segment& segment) { stand_now(at, segment, key); });
    } else if (command == "withdraw") {
      refused_.insert(key);
      for (const Attended& attended : attended_) withdraw_from(attended, key);
    } else {
      fail("unknown command " + command);
    }
  }

  // If the lock is in use, waits as a fair waiter, as an agent does.
  void withdraw_from(const Attended& attended, const std::string& key) {
    if (withdraw_idle(dictionary(attended), key) != Code::locked) return;
    holdfast_wait wait{};
    wait.parker = parker_;
    wait.waiter = contender_;
    wait.fair = 1;
    holdfast_lease lease{};
    const double end = holdfast_now() + kPatience;
    int code = HOLDFAST_LOCKED;
    while ((code = holdfast_lock_wait(attended.handle, key.data(), key.size(), 0, &wait, &lease)) != HOLDFAST_OK) {
      if (holdfast_now() > end) fail("cannot get the lock");
      std::uint32_t woken = 0;
      holdfast_parker_sleep(parker_, std::min(wait.sleep, kRoundMs / 1e3), &woken, 1);
    }
    Lease held{lease.owner, lease.sequence};
    if (withdraw(dictionary(attended), key, held) != Code::ok) fail("cannot withdraw the lock");
  }

  std::vector<std::string> names_;
  std::vector<Attended> attended_;
  Answerer answerer_;
  holdfast_parker* parker_ = holdfast_parker_new();
  std::uint32_t waiter_ = 0;
  std::uint32_t contender_ = 0;
  std::set<std::string> refused_;
  std::set<std::string> ignored_;
  std::set<std::string> standing_;
  bool attends_ = true;
  bool has_session_ = true;
  std::uint64_t session_ms_ = kDayMs;
  std::uint64_t revision_ = 1000;
};

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  holdfast::LocalAgent({argv + 1, static_cast<std::size_t>(argc - 1)}).run();
  return 0;
}
