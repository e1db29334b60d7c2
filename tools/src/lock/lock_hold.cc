#include "lock/lock_hold.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace holdfast::cli {

namespace {

/// The lock's descriptors get larger numbers than scripts use, so that `exec 3>file` does not close one of them.
constexpr int kFirstDescriptor = 512;

constexpr std::size_t kDescriptors = 2;

struct Packet {
  std::uint64_t order = 0;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
  iovec part{&order, sizeof order};
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
  // Close the previous descriptor only now, because it may be the only proof that the same dictionary is in use.
  use_ = out_of_the_way(fds[0]);
  Descriptor none(fds[1]);  // the first descriptor is enough
}

void Hold::inherit() const {
  for (const int fd : {life_.get(), use_.get()})
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

// Ends the keeper last, because its end notifies waiters.
void Hold::end() {
  for (Descriptor* const one : {&life_, &use_, &keeper_})
    if (one->get() >= 0) holdfast_end_hold(one->release());
}

bool send_order(int channel, std::uint64_t order, const Hold& hold) {
  Packet packet;
  packet.order = order;
  const auto [life, keeper, use] = hold.descriptors();
  const std::array<int, kDescriptors> fds{life, use};
  cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  if (std::min(life, use) < 0) packet.message.msg_controllen = 0;
  return ::sendmsg(channel, &packet.message, MSG_NOSIGNAL) >= 0 || errno == EPIPE || errno == ECONNRESET;
}

std::optional<std::uint64_t> receive_order(int channel, Hold& hold) {
  Packet packet;
  ssize_t size = 0;
  do {
    size = ::recvmsg(channel, &packet.message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof packet.order) return std::nullopt;
  const cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::array<int, kDescriptors> fds{-1, -1};
    std::memcpy(fds.data(), CMSG_DATA(header), std::min(sizeof fds, header->cmsg_len - CMSG_LEN(0)));
    hold.prove_life({fds[0], -1});
    hold.use_dictionary({fds[1], -1});
  }
  return packet.order;
}

}  // namespace holdfast::cli
