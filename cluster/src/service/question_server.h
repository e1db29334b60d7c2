// The agent's end of the questions of local programs (gate/question.h).
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
  /// Takes the place of an earlier agent's socket. Throws std::runtime_error if it cannot listen.
  QuestionServer(const RuntimeDirectory& directory, const std::string& cluster);
  ~QuestionServer();
  QuestionServer(const QuestionServer&) = delete;
  QuestionServer& operator=(const QuestionServer&) = delete;

  /// Readable when read() has something to do.
  int descriptor() const noexcept { return poll_.get(); }
  /// Whether programs that ask reach this one.
  bool has_name() const noexcept;
  /// Whether they reach another one, which lives.
  bool is_replaced() const;
  /// Lets them reach this one from now on. False: it is not possible now.
  bool take_name();
  /// Takes what has come: each question is given once. One that makes no sense ends its connection.
  std::vector<Query> read();
  /// Answers, and ends the connection. Does nothing if its other end is gone.
  void answer(std::uint64_t number, const std::string& text);

 private:
  void accept();
  void listen(bool on);
  bool watch(int fd, std::uint64_t number) const;

  const RuntimeDirectory& directory_;
  const std::string cluster_;
  const std::string path_;
  std::uint64_t inode_ = 0;  // of the file of its socket
  platform::FileDescriptor poll_;
  platform::FileDescriptor listener_;
  bool listens_ = false;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, platform::FileDescriptor> connections_;
  std::size_t under_way_ = 0;  // questions that have no answer yet, also of connections that have ended
};

/// A reply as the text of an answer.
std::string write_answer(const Reply& reply);

}  // namespace holdfast::agent
