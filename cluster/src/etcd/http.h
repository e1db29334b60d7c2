// Sends requests over HTTP/1.1 and TLS with libcurl. Does not depend on etcd.
//
// Each request is sent only once. By default, if a reused connection ends before the answer, libcurl repeats the
// request, although the server may have executed it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "etcd/loop.h"

namespace holdfast::etcd {

/// Paths of PEM files. Empty paths mean that the system's certificate authorities are trusted, and that no client
/// certificate is used.
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
  std::int64_t timeout_ms = 1000;  // limit for the whole answer or, for a stream, for the connection
};

struct Response {
  bool ended = false;         // the answer is complete
  bool may_have_sent = true;  // false: the server has not received any part of the body
  long status = 0;            // HTTP status; 0: it did not arrive
  std::string body;           // for a stream, the bytes after the last line end
  std::string failure;        // a message for people, unless `ended`
};

/// A running request. Destroying it ends the request: no more callbacks run.
class Transfer {
 public:
  virtual ~Transfer() = default;
};

/// Returns whether the text is an http or https URL with a host and optionally a port. The URL must have no path, and
/// no secret, which would appear in the log.
bool is_endpoint(const std::string& url);

class Http {
 public:
  using Done = std::function<void(const Response&)>;
  using Line = std::function<void(const std::string&)>;

  Http(Loop& loop, Tls tls);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Sends the request. The callback may destroy the transfer.
  std::unique_ptr<Transfer> send(Request request, Done done);
  /// Calls `line` with each line of an endless answer, and then `done`. Passes an answer with a status other than 200
  /// to `done` as a whole.
  std::unique_ptr<Transfer> stream(Request request, Line line, Done done);

 private:
  class Handle;
  friend class Handle;

  Loop& loop_;
  const Tls tls_;
  std::vector<CURL*> idle_;         // handles to reuse
  std::set<std::string> answered_;  // servers that have answered, as "http://host:2379"
};

}  // namespace holdfast::etcd
