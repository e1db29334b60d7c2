#include "etcd/errors.h"

#include <array>
#include <string_view>

namespace holdfast::etcd {

namespace {

using agent::Fault;
using agent::Outcome;

// The messages of etcd 3.4 to 3.6 whose code alone is ambiguous. Each of these messages means that the request was not
// executed. Any other message with an ambiguous code counts as unknown.
struct Known {
  std::string_view message;  // a part of the message
  Fault fault;
  bool token = false;
  bool elsewhere = false;
};
constexpr std::array kKnown{
    Known{"requested lease not found", Fault::no_lease},
    Known{"database space exceeded", Fault::no_space},
    Known{"etcdserver: no leader", Fault::no_leader, false, true},
    // This comes from a member without a leader. A leader that drops a forwarded proposal does not report this.
    Known{"raft proposal dropped", Fault::no_leader, false, true},
    Known{"not capable", Fault::no_leader, false, true},
    Known{"request is too large", Fault::too_large},
    Known{"too many operations in txn", Fault::too_large},
    Known{"message larger than max", Fault::too_large},
    Known{"has been compacted", Fault::compacted},
    Known{"invalid auth token", Fault::denied, true},
    Known{"revision of auth store is old", Fault::denied, true},
    Known{"user name is empty", Fault::denied, true},
    Known{"permission denied", Fault::denied},
    Known{"authentication failed", Fault::denied},
    Known{"too many requests", Fault::other},
};

// The gRPC codes which mean that the request was not executed.
enum : int { kInvalidArgument = 3, kNotFound = 5, kPermissionDenied = 7, kResourceExhausted = 8 };
enum : int { kFailedPrecondition = 9, kOutOfRange = 11, kUnimplemented = 12, kUnauthenticated = 16 };

bool did_nothing(int code) {
  return code == kInvalidArgument || code == kNotFound || code == kPermissionDenied || code == kResourceExhausted ||
         code == kFailedPrecondition || code == kOutOfRange || code == kUnimplemented || code == kUnauthenticated;
}

// Returns at most the first 200 bytes of the first line of a server's text. The text may be empty.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 200;
  std::string line = text.substr(0, text.find_first_of("\r\n"));
  if (line.size() > kMost) line = line.substr(0, kMost) + "...";
  return line;
}

// Judges an answer that does not come from etcd's gateway, but from a proxy in front of etcd or from etcd itself.
Verdict judge_plain(long status, const std::string& body) {
  Verdict verdict;
  verdict.cause = "answered " + std::to_string(status);
  if (const std::string text = shortened(body); !text.empty()) verdict.cause += ": " + text;
  if (status < 400 || status >= 500) return verdict;
  verdict.outcome = Outcome::refused;
  verdict.elsewhere = true;
  if (status == 404) {
    verdict.cause =
        "has no JSON gateway (404): etcd 3.4 disables it if started with --config-file; set "
        "enable-grpc-gateway: true in that file";
  } else if (status == 400 && body.find("CommonName") != std::string::npos) {
    verdict.fault = Fault::denied;
    verdict.cause =
        "refuses the client certificate because it has a common name (CN), which etcd's gateway does not accept; "
        "use a certificate without CN, and a user with a password";
  } else if (status == 400 && body.find("HTTPS server") != std::string::npos) {
    verdict.cause = "uses TLS; write https:// in its address";
  } else if (status == 401 || status == 403) {
    verdict.fault = Fault::denied;
  }
  return verdict;
}

void explain_denial(Verdict& verdict, std::string_view message, bool has_user) {
  if (message.find("user name is empty") == std::string_view::npos || has_user) return;
  verdict.token = false;
  verdict.cause = "requires a user and a password, but none are configured (" + verdict.cause + ")";
}

}  // namespace

Verdict judge(const ServerError& error, bool has_user) {
  Verdict verdict;
  const std::string message = shortened(error.message);
  verdict.cause = "says: " + (message.empty() ? "error " + std::to_string(error.code) : message);
  if (did_nothing(error.code)) verdict.outcome = Outcome::refused;
  if (error.code == kPermissionDenied || error.code == kUnauthenticated) verdict.fault = Fault::denied;
  for (const Known& known : kKnown) {
    if (error.message.find(known.message) == std::string::npos) continue;
    verdict.outcome = Outcome::refused;
    verdict.fault = known.fault;
    verdict.token = known.token && has_user;
    verdict.elsewhere = known.elsewhere;
    break;
  }
  if (error.code == kUnauthenticated) verdict.token = has_user;
  explain_denial(verdict, error.message, has_user);
  return verdict;
}

Verdict judge(long status, const std::string& body, bool has_user) {
  if (const auto error = decode_error(body)) return judge(*error, has_user);
  return judge_plain(status, body);
}

Verdict judge_cancellation(const std::string& reason, bool has_user) {
  // In a cancellation, the code is a word: "rpc error: code = PermissionDenied desc = etcdserver: permission denied".
  const std::size_t desc = reason.find("desc = ");
  return judge(ServerError{0, desc == std::string::npos ? reason : reason.substr(desc + 7)}, has_user);
}

std::string sentence(const std::string& endpoint, const std::string& cause) {
  return "etcd at " + endpoint + " " + cause;
}

}  // namespace holdfast::etcd
