#include "lock/lock_hold.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace holdfast::cli {

namespace {

/// Scripts use descriptors of one or two digits by number; `exec 3>file` must not close a lock.
constexpr int kFirstDescriptor = 512;

constexpr std::size_t kDescriptors = 3;

struct Packet {
  Grant grant;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
  iovec part{&grant, sizeof grant};
  msghdr message{};

  Packet() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

}  // namespace

Descriptor Hold::out_of_the_way(int fd) {
  Descriptor given(fd);
  const int high = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  return high >= 0 ? Descriptor(high) : std::move(given);
}

void Hold::prove_life(const std::array<int, 2>& fds) {
  life_ = out_of_the_way(fds[0]);
  keeper_ = out_of_the_way(fds[1]);
}

void Hold::use_dictionary(const std::array<int, 2>& fds) {
  // Close the previous use only now: the dictionary may be the same.
  use_ = out_of_the_way(fds[0]);
  Descriptor none(fds[1]);  // the first one is enough
}

void Hold::inherit() const {
  for (const int fd : {life_.get(), use_.get()})
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

// The keeper ends last: it notifies waiters.
void Hold::end() {
  for (Descriptor* const one : {&life_, &use_, &keeper_})
    if (one->get() >= 0) holdfast_end_hold(one->release());
}

void send_hold(int channel, const Grant& grant, const Hold& hold) {
  Packet packet;
  packet.grant = grant;
  std::array<int, kDescriptors> fds = hold.descriptors();
  // Only the last descriptor may be missing.
  const auto count = static_cast<std::size_t>(std::find(fds.begin(), fds.end(), -1) - fds.begin());
  cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
  packet.message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  static_cast<void>(::sendmsg(channel, &packet.message, MSG_NOSIGNAL));
}

void send_given_back(int channel) { static_cast<void>(::send(channel, "", 1, MSG_NOSIGNAL)); }

void send_waits(int channel) { static_cast<void>(::send(channel, "w", 2, MSG_NOSIGNAL)); }

Word receive_word(int channel) {
  Packet packet;
  const ssize_t size = ::recvmsg(channel, &packet.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return {.kind = errno == EAGAIN || errno == EINTR ? Word::Kind::none : Word::Kind::ended};
  if (size == 0) return {.kind = Word::Kind::ended};
  if (size == 1) return {.kind = Word::Kind::given_back};
  if (size == 2) return {.kind = Word::Kind::waits};
  const cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {.kind = Word::Kind::ended};
  std::array<int, kDescriptors> fds{-1, -1, -1};
  std::memcpy(fds.data(), CMSG_DATA(header), std::min(sizeof fds, header->cmsg_len - CMSG_LEN(0)));
  Word word{.kind = Word::Kind::held, .grant = packet.grant};
  word.hold.prove_life({fds[0], fds[1]});
  word.hold.use_dictionary({fds[2], -1});
  return word;
}

}  // namespace holdfast::cli
