#include "etcd/versions.h"

#include <utility>

#include "etcd/errors.h"

namespace holdfast::etcd {

VersionQuestion::VersionQuestion(Client& client, Done done)
    : client_(client), done_(std::move(done)), answers_(client.endpoints().size()), open_(answers_.size()) {
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    answers_[i].url = client.endpoints().url(i);
    Request request;
    request.method = Request::Method::get;
    request.url = answers_[i].url + "/version";
    request.timeout_ms = client.options().timeout_ms;
    transfers_.push_back(
        client.http().send(std::move(request), [this, i](const Response& response) { answered(i, response); }));
  }
}

void VersionQuestion::answered(std::size_t endpoint, const Response& response) {
  EndpointVersion& answer = answers_[endpoint];
  if (!response.ended) {
    answer.trouble = sentence(answer.url, "does not answer: " + response.failure);
  } else {
    if (response.status == 200) answer.version = decode_version(response.body);
    if (!answer.version) answer.trouble = sentence(answer.url, "does not report its version");
  }
  answer.version ? ask_cluster(endpoint) : end_one();
}

// Asks for the cluster's id. Like the version, it needs no user.
void VersionQuestion::ask_cluster(std::size_t endpoint) {
  Request request;
  request.url = answers_[endpoint].url + "/v3/maintenance/status";
  request.body = "{}";
  request.timeout_ms = client_.options().timeout_ms;
  transfers_[endpoint] = client_.http().send(std::move(request), [this, endpoint](const Response& response) {
    if (response.ended && response.status == 200) answers_[endpoint].cluster = cluster_in(response.body);
    if (Identity* const identity = client_.options().identity; identity != nullptr)
      identity->hear(endpoint, answers_[endpoint].cluster, boottime_ms());
    end_one();
  });
}

void VersionQuestion::end_one() {
  if (--open_ == 0) done_(answers_);
}

}  // namespace holdfast::etcd
