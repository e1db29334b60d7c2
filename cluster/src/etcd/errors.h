// What an error of etcd means for a request, and how people are told.
#pragma once

#include <string>

#include "agent/store.h"
#include "etcd/json.h"

namespace holdfast::etcd {

struct Verdict {
  agent::Outcome outcome = agent::Outcome::unknown;
  agent::Fault fault = agent::Fault::other;
  bool token = false;      // a new token may help; nothing was done
  bool elsewhere = false;  // another endpoint may do it; nothing was done here
  std::string cause;       // for people; the sentence of which endpoint is the subject goes on with it
};

/// Of an answer with a status other than 200. `has_user`: whether there is a user to get a token for.
Verdict judge(long status, const std::string& body, bool has_user);
/// Of an error inside an answer of status 200.
Verdict judge(const ServerError& error, bool has_user);
/// Of a canceled watch: its reason.
Verdict judge_cancellation(const std::string& reason, bool has_user);

/// "etcd at ENDPOINT CAUSE"
std::string sentence(const std::string& endpoint, const std::string& cause);

}  // namespace holdfast::etcd
