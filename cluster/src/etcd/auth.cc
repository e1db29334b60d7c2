#include "etcd/auth.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "etcd/json.h"

namespace holdfast::etcd {

namespace {

using agent::Fault;
using agent::Outcome;

std::optional<std::string> read_password(const std::string& path, std::string& cause) {
  std::ifstream file(path);
  std::string password;
  if (file && (std::getline(file, password) || file.eof())) {
    if (password.ends_with('\r')) password.pop_back();
    return password;
  }
  cause = "was not contacted: cannot read password file " + path + ": " + std::strerror(errno);
  return std::nullopt;
}

bool is_open_to_all(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && (info.st_mode & 0007) != 0;
}

constexpr std::int64_t kDenialMs = 1000;

Verdict denied(std::string cause) { return {Outcome::refused, Fault::denied, false, false, std::move(cause)}; }

}  // namespace

Auth::Auth(Loop& loop, Http& http, Credentials credentials, std::function<void(const std::string&)> complain)
    : loop_(loop), http_(http), credentials_(std::move(credentials)), complain_(std::move(complain)) {}

Auth::~Auth() = default;

void Auth::reject(const std::string& token) {
  if (token != token_) return;  // there is already a newer token
  token_.clear();
  disabled_ = false;
}

void Auth::obtain(const std::string& endpoint, std::int64_t timeout_ms, Done done) {
  waiting_.push_back(std::move(done));
  if (waiting_.size() > 1) return;
  if (boottime_ms() < denied_until_ms_) return end_later(denial_);
  std::string cause;
  const auto body = request_body(cause);
  if (!body) return end_later(denied(cause));
  Request request;
  request.url = endpoint + "/v3/auth/authenticate";
  request.body = *body;
  request.timeout_ms = timeout_ms;
  transfer_ = http_.send(std::move(request), [this](const Response& response) { answered(response); });
}

std::optional<std::string> Auth::request_body(std::string& cause) const {
  const std::string& path = credentials_.password_file;
  const auto password = read_password(path, cause);
  if (!password) return std::nullopt;
  // The file's mode was right when the agent started. With the present mode, the next start of the agent would fail.
  if (is_open_to_all(path)) complain_("the password file " + path + " is open to all users; run chmod o= " + path);
  auto body = encode_credentials(credentials_.user, *password);
  if (!body) cause = "was not contacted: the user and the password must be UTF-8";
  return body;
}

void Auth::end_later(Verdict failure) {
  loop_.post([this, failure = std::move(failure), alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) end(&failure);
  });
}

void Auth::answered(const Response& response) {
  const auto transfer = std::move(transfer_);  // the response is a part of the transfer
  if (!response.ended) {
    const Verdict failure{.cause = "does not answer: " + response.failure};
    return end(&failure);
  }
  if (response.status == 200) {
    if (const auto token = decode_token(response.body)) {
      token_ = *token;
      return end(nullptr);
    }
    const Verdict failure{.cause = "sent no token for user " + credentials_.user};
    return end(&failure);
  }
  const auto error = decode_error(response.body);
  if (error && error->message.find("authentication is not enabled") != std::string::npos) {
    disabled_ = true;
    return end(nullptr);
  }
  Verdict failure = judge(response.status, response.body, false);
  if (error && failure.fault == Fault::denied)
    failure.cause = "refuses user " + credentials_.user + ": " + error->message;
  if (failure.fault == Fault::denied) {
    denial_ = failure;
    denied_until_ms_ = boottime_ms() + kDenialMs;
  }
  end(&failure);
}

void Auth::end(const Verdict* failure) {
  std::vector<Done> waiting;
  waiting.swap(waiting_);
  const std::weak_ptr<int> alive = alive_;
  for (const Done& done : waiting) {
    if (alive.expired()) return;
    done(failure);
  }
}

}  // namespace holdfast::etcd
