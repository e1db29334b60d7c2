#include "service/question_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "gate/question.h"
#include "world/world_file.h"

namespace holdfast::agent {

namespace {

constexpr std::uint64_t kListener = 0;
constexpr std::size_t kConnectionsMax = 256;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

// Returns the inode of the file with this name. Returns 0 if the file is not a socket of this user, because other users
// may have put a file there.
std::uint64_t inode_of(const std::string& path) {
  struct stat info {};
  const bool is_ours = ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode) && info.st_uid == ::geteuid();
  return is_ours ? info.st_ino : 0;
}

std::optional<Query> query_of(std::uint64_t number, std::string_view packet) {
  static const std::map<std::string_view, Query::Kind> kinds{{"verify", Query::Kind::verify},
                                                             {"holder", Query::Kind::holder},
                                                             {"break", Query::Kind::break_lock},
                                                             {"status", Query::Kind::status},
                                                             {"accept", Query::Kind::accept}};
  Question question;
  if (!read_question(packet, question)) return std::nullopt;
  const auto kind = kinds.find(question.kind);
  if (kind == kinds.end()) return std::nullopt;
  return Query{.number = number,
               .kind = kind->second,
               .name = {std::string(question.dictionary), std::string(question.key)},
               .revision = static_cast<Revision>(question.revision)};
}

std::string temporary_name() {
  return fmt::format("{}{:08x}", kTemporaryPrefix, static_cast<std::uint32_t>(platform::random_number()));
}

// Binds the socket to a new file with exactly this mode. This changes the umask of the whole process, which is
// harmless, because the process creates no other file at the same time.
int bind_with_mode(int socket, const sockaddr_un& address, mode_t mode) {
  const mode_t before = ::umask(0);
  const int failed =
      ::fchmod(socket, mode) != 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
  ::umask(before);  // keeps `errno`
  return failed ? -1 : 0;
}

// Returns a listening socket, or sets `errno` on failure. Once the socket's file has a name, its mode must not be
// changed, because a member of the group may replace the file with a link at any time. So the file's mode admits every
// user from the start, but the directory admits only the group.
platform::FileDescriptor listening_socket(const std::string& path, const RuntimeDirectory& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return {};
  }
  std::copy(path.begin(), path.end(), static_cast<char*>(address.sun_path));
  platform::FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const mode_t mode = directory.sharing() == RuntimeDirectory::Sharing::group ? 0666 : 0600;
  const bool listens =
      listener && bind_with_mode(listener.get(), address, mode) == 0 && ::listen(listener.get(), SOMAXCONN) == 0;
  return listens ? std::move(listener) : platform::FileDescriptor();
}

void add(std::string& text, const std::string& name, std::string value) {
  std::replace(value.begin(), value.end(), '\n', ' ');
  if (!value.empty()) text += fmt::format("{}={}\n", name, value);
}

}  // namespace

QuestionServer::QuestionServer(const RuntimeDirectory& directory, const std::string& cluster)
    : directory_(directory),
      cluster_(cluster),
      path_(agent_socket(directory, cluster)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  const std::size_t longest = std::max(path_.size(), directory.path_of(temporary_name()).size());
  if (longest >= sizeof sockaddr_un::sun_path)
    throw std::runtime_error(fmt::format("the path {} is too long for a socket: expected at most {} bytes", path_,
                                         sizeof sockaddr_un::sun_path - 1 - (longest - path_.size())));
  if (!poll_) fail("cannot create a socket");
  if (!take_name()) fail("cannot listen on " + path_);
}

QuestionServer::~QuestionServer() {
  if (has_name()) ::unlink(path_.c_str());
}

bool QuestionServer::has_name() const noexcept { return inode_of(path_) == inode_; }

bool QuestionServer::is_replaced() const { return !has_name() && connect_agent(directory_, cluster_); }

// Binds the socket to a different name first, and then renames its file. So this agent knows which file is its own, and
// there is always a socket with the final name. This name leads programs to the latest agent.
bool QuestionServer::take_name() {
  const std::string made = directory_.path_of(temporary_name());
  platform::FileDescriptor listener = listening_socket(made, directory_);
  const std::uint64_t inode = listener ? inode_of(made) : 0;
  if (listener && inode == 0) errno = EEXIST;  // the name belongs to a different file by now
  if (inode == 0 || ::rename(made.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(made.c_str());
    errno = error;
    return false;
  }
  inode_ = inode;
  listener_ = std::move(listener);
  listens_ = false;
  listen(true);
  return listens_;
}

bool QuestionServer::watch(int fd, std::uint64_t number) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// Starts or stops listening. While no more connections are accepted, the socket must not wake the agent.
void QuestionServer::listen(bool on) {
  if (listens_ == on) return;
  if (on)
    listens_ = watch(listener_.get(), kListener);
  else
    listens_ = ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr) != 0;
}

// Accepts connections. If there are too many connections, or no free descriptors, programs wait in the backlog until
// the next call.
void QuestionServer::accept() {
  while (connections_.size() < kConnectionsMax) {
    platform::FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection) return listen(errno == EAGAIN || errno == ECONNABORTED || errno == EINTR);
    if (watch(connection.get(), last_ + 1)) connections_[++last_] = std::move(connection);
  }
  listen(false);
}

std::vector<Query> QuestionServer::read() {
  std::vector<Query> queries;
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (count <= 0 && listens_) return queries;
  std::string packet(kQuestionMax, '\0');
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
    const auto found = connections_.find(number);
    if (found == connections_.end()) continue;
    const ssize_t size = ::recv(found->second.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    auto query =
        query_of(number, std::string_view(packet).substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
    if (!query) {
      connections_.erase(found);
    } else if (++under_way_ <= kConnectionsMax) {
      queries.push_back(std::move(*query));
    } else {
      Reply reply;
      reply.sentence = "the agent is busy: too many requests";
      answer(number, write_answer(reply));
    }
  }
  accept();  // last, because connections that have ended make room
  return queries;
}

// Counts the question as answered even if the program did not wait for the answer.
void QuestionServer::answer(std::uint64_t number, const std::string& text) {
  --under_way_;
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const std::string packet = text.substr(0, kAnswerMax);
  ::send(found->second.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connections_.erase(found);
}

std::string write_answer(const Reply& reply) {
  constexpr std::array<const char*, 4> kCodes{"yes", "no", "unavailable", "unsupported"};
  std::string text = fmt::format("code={}\n", kCodes[static_cast<std::size_t>(reply.code)]);
  add(text, "sentence", reply.sentence);
  add(text, "namespace", reply.space);
  if (reply.revision != 0) add(text, "revision", std::to_string(reply.revision));
  if (reply.machine != 0) add(text, "machine", fmt::format("{:016x}", reply.machine));
  const Document& document = reply.document;
  add(text, "host", document.host);
  if (document.contender.pid != 0) add(text, "pid", std::to_string(document.contender.pid));
  add(text, "program", document.contender.program);
  add(text, "why", document.contender.why);
  if (document.when != 0) add(text, "when", std::to_string(document.when));
  for (const auto& [name, number] : reply.figures) add(text, name, std::to_string(number));
  return text;
}

}  // namespace holdfast::agent
