// A server that sends exactly what a test requires, even invalid answers or nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::test {

struct FakeRequest {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  int of_connection = 0;  // 1 for the first request on a connection
};

class FakeServer;

/// The server's end of a connection.
class FakeConnection {
 public:
  FakeConnection(int fd, FakeServer& server) : fd_(fd), server_(server) {}

  void send(const std::string& bytes) const;
  /// Sends a complete answer.
  void answer(int status, const std::string& body) const;
  /// Begins an answer of unknown length. The parts follow.
  void begin_stream() const;
  void chunk(const std::string& bytes) const;
  void end_stream() const { send("0\r\n\r\n"); }
  void close();
  void reset();
  /// Blocks until the server ends, so that the request is never answered.
  void stay_silent();

 private:
  int fd_;
  FakeServer& server_;
};

class FakeServer {
 public:
  /// Called once for each request, in the connection's thread.
  using Handler = std::function<void(const FakeRequest&, FakeConnection&)>;

  explicit FakeServer(Handler handler);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Returns the requests so far.
  std::vector<FakeRequest> seen();
  int count(const std::string& path);

 private:
  friend class FakeConnection;

  void accept_all();
  void serve(int fd);

  const Handler handler_;
  int port_ = 0;  // declared before the listener, which sets the port
  const int listener_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ending_ = false;
  std::vector<FakeRequest> seen_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

/// Returns a port on 127.0.0.1 on which no process listens.
int free_port();

}  // namespace holdfast::test
