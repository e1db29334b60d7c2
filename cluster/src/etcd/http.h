// Requests over HTTP/1.1 and TLS, by libcurl. It knows nothing of etcd.
//
// A request is sent once: libcurl would send it anew over another connection if a reused one ends before the answer,
// and the first may have been carried out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "etcd/loop.h"

namespace holdfast::etcd {

/// Paths of PEM files; empty: the system's authorities, no client certificate.
struct Tls {
  std::string ca;
  std::string certificate;
  std::string key;
};

struct Request {
  enum class Method { get, post };
  Method method = Method::post;
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  std::int64_t timeout_ms = 1000;  // from the start to the end of the answer; of a stream: to the connection
};

struct Response {
  bool ended = false;         // the server's answer is here whole
  bool may_have_sent = true;  // else the server has nothing of the body
  long status = 0;            // of HTTP; 0: none came
  std::string body;           // of a stream, what followed the last line end
  std::string failure;        // for people, unless it ended
};

/// A request under way. Its end is the request's: then no callback is called any more.
class Transfer {
 public:
  virtual ~Transfer() = default;
};

/// Whether it is a URL of http or https, a host and, perhaps, a port: no path, and nothing secret that a log would
/// show.
bool is_endpoint(const std::string& url);

class Http {
 public:
  using Done = std::function<void(const Response&)>;
  using Line = std::function<void(const std::string&)>;

  Http(Loop& loop, Tls tls);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// The callback may end the transfer.
  std::unique_ptr<Transfer> send(Request request, Done done);
  /// Calls `line` with each line of an answer that goes on and on, then `done`. An answer with a status other than 200
  /// comes to `done` whole.
  std::unique_ptr<Transfer> stream(Request request, Line line, Done done);

 private:
  class Handle;
  friend class Handle;

  Loop& loop_;
  const Tls tls_;
  std::vector<CURL*> idle_;         // handles to be used again
  std::set<std::string> answered_;  // servers, as "http://host:2379", that have ever answered
};

}  // namespace holdfast::etcd
