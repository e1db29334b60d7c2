// Decides what an error from etcd means for a request, and describes the error for people.
#pragma once

#include <string>

#include "agent/store.h"
#include "etcd/json.h"

namespace holdfast::etcd {

struct Verdict {
  agent::Outcome outcome = agent::Outcome::unknown;
  agent::Fault fault = agent::Fault::other;
  bool token = false;      // a new token may help; the request was not executed
  bool elsewhere = false;  // another endpoint may succeed; the request was not executed here
  std::string cause;       // the predicate of a sentence for people; the endpoint is the subject
};

/// Judges an answer with a status other than 200. `has_user`: a user is configured, for whom a token can be requested.
Verdict judge(long status, const std::string& body, bool has_user);
/// Judges an error inside an answer with status 200.
Verdict judge(const ServerError& error, bool has_user);
/// Judges the reason why a watch was cancelled.
Verdict judge_cancellation(const std::string& reason, bool has_user);

/// Returns "etcd at ENDPOINT CAUSE".
std::string sentence(const std::string& endpoint, const std::string& cause);

}  // namespace holdfast::etcd
