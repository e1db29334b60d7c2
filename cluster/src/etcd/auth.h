// Gets a token for a user with a password. Requests the token when it is needed, and again when a server no longer
// knows it. etcd forgets a token after five idle minutes, and when it restarts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etcd/errors.h"
#include "etcd/http.h"

namespace holdfast::etcd {

struct Credentials {
  std::string user;           // empty if there is no user
  std::string password_file;  // its first line is the password; read for each token, because it may change
};

class Auth {
 public:
  /// Called with nullptr on success, or with the reason why there is no token. An `unknown` outcome means that no
  /// server answered.
  using Done = std::function<void(const Verdict* failure)>;

  /// `complain` receives messages for the log.
  Auth(Loop& loop, Http& http, Credentials credentials, std::function<void(const std::string&)> complain);
  ~Auth();
  Auth(const Auth&) = delete;
  Auth& operator=(const Auth&) = delete;

  bool has_user() const noexcept { return !credentials_.user.empty(); }
  /// Returns whether obtain() is needed before a request.
  bool lacks_token() const noexcept { return has_user() && token_.empty() && !disabled_; }
  /// Returns the token, or an empty string if the server's authentication is not enabled.
  const std::string& token() const noexcept { return token_; }
  /// Records that a server refused this token, or requires a token.
  void reject(const std::string& token);
  /// Requests a token, and calls `done` later. Only one request runs at a time. Later callers wait for the same
  /// request, whatever their endpoint.
  void obtain(const std::string& endpoint, std::int64_t timeout_ms, Done done);

 private:
  std::optional<std::string> request_body(std::string& cause) const;
  void end_later(Verdict failure);
  void answered(const Response& response);
  void end(const Verdict* failure);

  Loop& loop_;
  Http& http_;
  const Credentials credentials_;
  const std::function<void(const std::string&)> complain_;
  std::string token_;
  bool disabled_ = false;
  Verdict denial_;  // the last denial; used again for a while, because a server needs long to check a password
  std::int64_t denied_until_ms_ = 0;
  std::vector<Done> waiting_;
  std::unique_ptr<Transfer> transfer_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace holdfast::etcd
