#include "etcd/versions.h"

#include <utility>

#include "etcd/errors.h"

namespace holdfast::etcd {

VersionQuestion::VersionQuestion(Client& client, Done done)
    : done_(std::move(done)), answers_(client.endpoints().size()), open_(answers_.size()) {
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
    if (!answer.version) answer.trouble = sentence(answer.url, "does not tell its version");
  }
  if (--open_ == 0) done_(answers_);
}

}  // namespace holdfast::etcd
