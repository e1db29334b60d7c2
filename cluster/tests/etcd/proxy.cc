#include "etcd/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <list>
#include <random>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "etcd/fake_server.h"
#include "platform/platform.h"

namespace holdfast::test {

namespace {

using platform::FileDescriptor;

constexpr std::size_t kPiece = 16384;

std::int64_t now_ms() { return static_cast<std::int64_t>(platform::monotonic_ns() / 1'000'000); }

sockaddr_in address_of(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

FileDescriptor new_socket() {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/// Connects to the port. On loopback, a connection succeeds immediately or not at all.
FileDescriptor connect_to(int port) {
  FileDescriptor fd = new_socket();
  const sockaddr_in address = address_of(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return FileDescriptor();
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

/// Closes the connection with a reset, as a network device does if it does not know the connection.
void abandon(FileDescriptor& fd) {
  const linger now{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd = FileDescriptor();
}

struct Rules {
  bool hold = false;
  std::string member;  // `hold` applies to this member's connections, or to all if it is empty
  bool hold_answers = false;
  std::int64_t delay_ms = 0;
  std::int64_t slow_ms = 0;
  bool repeat = false;
};

enum class Came { nothing, piece, failure };

/// The data that one end has sent and the other end has not received yet. An empty piece means the end of the
/// connection.
class Pieces {
 public:
  Came read_from(int fd, std::int64_t due) {
    if (ended_) return Came::nothing;
    std::string piece(kPiece, '\0');
    const ssize_t size = ::recv(fd, piece.data(), piece.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? Came::nothing : Came::failure;
    piece.resize(static_cast<std::size_t>(size));
    ended_ = piece.empty();
    pieces_.push_back({due, std::move(piece)});
    return Came::piece;
  }
  /// Writes the pieces that are due. Returns false if the receiving end is gone or must be closed.
  bool write_to(int fd, std::int64_t now) {
    while (!pieces_.empty() && pieces_.front().due <= now) {
      std::string& piece = pieces_.front().bytes;
      if (piece.empty()) return false;
      const ssize_t size = ::send(fd, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      piece.erase(0, static_cast<std::size_t>(size));
      if (piece.empty()) pieces_.pop_front();
    }
    return true;
  }
  bool ended() const { return ended_; }
  bool empty() const { return pieces_.empty(); }
  std::int64_t due() const { return pieces_.front().due; }
  const std::string& last() const { return pieces_.back().bytes; }

 private:
  struct Piece {
    std::int64_t due = 0;
    std::string bytes;
  };
  std::deque<Piece> pieces_;
  bool ended_ = false;
};

class Connection {
 public:
  Connection(FileDescriptor client, FileDescriptor server) : client_(std::move(client)), server_(std::move(server)) {}

  /// Adds the entries for poll(2).
  void add_to(std::vector<pollfd>& polled) const {
    polled.push_back({up_.ended() ? -1 : client_.get(), POLLIN, 0});
    polled.push_back({down_.ended() ? -1 : server_.get(), POLLIN, 0});
  }

  /// Receives data. Returns false at the end of the connection.
  bool read(const Rules& rules, int server_port, std::mt19937_64& random) {
    const std::int64_t due = now_ms() + rules.delay_ms;
    const Came up = up_.read_from(client_.get(), due);
    if (up == Came::piece) look_at(up_.last());
    if (up == Came::piece && rules.repeat) say_again(up_.last(), server_port);
    const bool slow = rules.slow_ms > 0 && transacts_;
    const std::int64_t wait = slow ? static_cast<std::int64_t>(random() % 1'000'000) * rules.slow_ms / 1'000'000 : 0;
    return up != Came::failure && down_.read_from(server_.get(), due + wait) != Came::failure;
  }
  /// Sends the data that is due.
  bool write(const Rules& rules) {
    const std::int64_t now = now_ms();
    if (rules.hold && (rules.member.empty() || rules.member == member_)) return true;
    if (!up_.write_to(server_.get(), now)) return false;
    return rules.hold_answers || down_.write_to(client_.get(), now);
  }
  std::int64_t due() const {
    std::int64_t due = now_ms() + 1000;
    for (const Pieces* pieces : {&up_, &down_})
      if (!pieces->empty()) due = std::min(due, pieces->due());
    return due;
  }
  void end() {
    abandon(client_);
    abandon(server_);
  }

 private:
  void look_at(const std::string& piece) {
    if (piece.starts_with("POST ")) transacts_ = piece.starts_with("POST /v3/kv/txn");
    static const std::string kFrom = "\r\nX-Server-From: ";
    if (const std::size_t at = piece.find(kFrom); at != std::string::npos && member_.empty()) {
      const std::size_t begin = at + kFrom.size();
      member_ = piece.substr(begin, piece.find('\r', begin) - begin);
    }
  }
  /// Repeats the request over a second connection, whose answers are ignored. The second connection ends when the next
  /// request is repeated.
  void say_again(const std::string& piece, int server_port) {
    if (!again_) again_ = connect_to(server_port);
    char answer[kPiece];
    while (::recv(again_.get(), answer, sizeof answer, MSG_DONTWAIT) > 0) continue;
    if (::send(again_.get(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) again_ = FileDescriptor();
  }

  FileDescriptor client_;
  FileDescriptor server_;
  FileDescriptor again_;
  Pieces up_;
  Pieces down_;
  std::string member_;
  bool transacts_ = false;
};

class Traffic {
 public:
  Traffic(Channel& test, int server_port, int own_port)
      : test_(test), server_port_(server_port), listener_(new_socket()) {
    const sockaddr_in address = address_of(own_port);
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || !listen())
      throw std::runtime_error("a proxy cannot listen");
  }

  void run() {
    for (;;) {
      std::vector<pollfd> polled{{test_.read_fd(), POLLIN, 0}, {listens_ ? listener_.get() : -1, POLLIN, 0}};
      std::int64_t due = now_ms() + 1000;
      for (const Connection& connection : connections_) {
        connection.add_to(polled);
        if (!rules_.hold && !rules_.hold_answers) due = std::min(due, connection.due());
      }
      ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(due - now_ms(), 0)));
      connections_.remove_if([this](Connection& connection) {
        return !connection.read(rules_, server_port_, random_) || !connection.write(rules_);
      });
      if ((polled[1].revents & POLLIN) != 0) accept();
      if (polled[0].revents != 0 && !obey(test_.hear())) return;
    }
  }

 private:
  bool listen() {
    listens_ = ::listen(listener_.get(), SOMAXCONN) == 0;
    return listens_;
  }
  void accept() {
    FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    FileDescriptor server = connect_to(server_port_);
    if (!server) return abandon(client);
    connections_.emplace_back(std::move(client), std::move(server));
  }
  bool obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string argument;
    words >> command >> argument;
    if (command == "(end)") return false;
    if (command == "cut" || command == "reset") {
      for (Connection& connection : connections_) connection.end();
      connections_.clear();
    }
    if (command == "reset") return answer();
    rules_ = {};
    if (command == "cut") {
      ::shutdown(listener_.get(), SHUT_RD);
      listens_ = false;
    } else if (!listens_) {
      listen();
    }
    rules_.hold = command == "hold";
    rules_.member = argument;
    rules_.hold_answers = command == "hold_answers";
    rules_.repeat = command == "repeat";
    if (command == "delay") rules_.delay_ms = std::stoi(argument);
    if (command == "slow") rules_.slow_ms = std::stoi(argument);
    return answer();
  }
  bool answer() {
    test_.say("done");
    return true;
  }

  Channel& test_;
  const int server_port_;
  FileDescriptor listener_;
  bool listens_ = false;
  Rules rules_;
  std::list<Connection> connections_;
  std::mt19937_64 random_{1};
};

}  // namespace

Proxy::Proxy(int server_port, int own_port) : port_(own_port != 0 ? own_port : free_port()) {
  child_ = std::make_unique<Child>([&](Channel& test) {
    Traffic traffic(test, server_port, port_);
    test.say("ready");
    traffic.run();
    return 0;
  });
  if (child_->hear() != "ready") throw std::runtime_error("a proxy does not start");
}

void Proxy::tell(const std::string& command) {
  if (child_->ask(command) != "done") throw std::runtime_error("the proxy is gone");
}

}  // namespace holdfast::test
