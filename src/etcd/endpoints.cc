#include "etcd/endpoints.h"

#include <algorithm>
#include <utility>

namespace holdfast::etcd {

std::int64_t Backoff::next_ms() {
  const std::int64_t step = step_ms_;
  step_ms_ = std::min(2 * step, kLongestMs);
  return std::uniform_int_distribution<std::int64_t>((step + 1) / 2, step)(random_);
}

Endpoints::Endpoints(std::vector<std::string> urls, std::uint64_t seed, std::int64_t lease_ms)
    : urls_(std::move(urls)), lease_ms_(lease_ms), backoff_(seed) {
  for (std::string& url : urls_)
    while (url.ends_with('/')) url.pop_back();
}

void Endpoints::worked(std::size_t index) noexcept {
  if (index != current_) return;
  failures_ = 0;
  not_before_ms_ = 0;
  backoff_.reset();
}

void Endpoints::failed(std::size_t index, std::int64_t now_ms) {
  // Those that were asked together fail together, and count once.
  if (index != current_ || now_ms < not_before_ms_) return;
  current_ = (current_ + 1) % urls_.size();
  if (++failures_ % urls_.size() == 0) not_before_ms_ = now_ms + backoff_.next_ms();
}

bool Endpoints::is_of_cluster(std::size_t index, std::string_view cluster, std::int64_t now_ms) {
  if (cluster.empty()) return true;  // it does not say
  const bool may_be_anew = cluster_.empty() || index == member_ || now_ms - answered_ms_ > lease_ms_;
  if (cluster != cluster_ && !may_be_anew) return false;
  cluster_ = cluster;
  member_ = index;
  answered_ms_ = now_ms;
  return true;
}

}  // namespace holdfast::etcd
