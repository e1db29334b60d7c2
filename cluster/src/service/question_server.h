// Receives questions from local programs, and sends the answers (gate/question.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/machine.h"
#include "platform/platform.h"
#include "world/runtime_directory.h"

namespace holdfast::agent {

class QuestionServer {
 public:
  /// Starts to listen, and replaces the socket of an earlier agent. Throws std::runtime_error on failure.
  QuestionServer(const RuntimeDirectory& directory, const std::string& cluster);
  ~QuestionServer();
  QuestionServer(const QuestionServer&) = delete;
  QuestionServer& operator=(const QuestionServer&) = delete;

  /// Returns a descriptor that is readable when read() has something to do.
  int descriptor() const noexcept { return poll_.get(); }
  /// Returns whether the questions of programs reach this server.
  bool has_name() const noexcept;
  /// Returns whether the questions of programs reach a different server, which is alive.
  bool is_replaced() const;
  /// Makes the questions of programs reach this server from now on. Returns false if this is not possible at the
  /// moment.
  bool take_name();
  /// Reads the packets that have arrived, and returns each question once. An invalid question ends its connection.
  std::vector<Query> read();
  /// Sends the answer, and ends the connection. Does nothing if the other end is gone.
  void answer(std::uint64_t number, const std::string& text);

 private:
  void accept();
  void listen(bool on);
  bool watch(int fd, std::uint64_t number) const;

  const RuntimeDirectory& directory_;
  const std::string cluster_;
  const std::string path_;
  std::uint64_t inode_ = 0;  // the inode of the socket's file
  platform::FileDescriptor poll_;
  platform::FileDescriptor listener_;
  bool listens_ = false;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, platform::FileDescriptor> connections_;
  std::size_t under_way_ = 0;  // unanswered questions, including those whose connections have ended
};

/// Returns the text of the answer for a reply.
std::string write_answer(const Reply& reply);

}  // namespace holdfast::agent
