#include "etcd/endpoints.h"

#include <algorithm>
#include <utility>

namespace holdfast::etcd {

std::int64_t Backoff::next_ms() {
  const std::int64_t step = step_ms_;
  step_ms_ = std::min(2 * step, kLongestMs);
  return std::uniform_int_distribution<std::int64_t>((step + 1) / 2, step)(random_);
}

Endpoints::Endpoints(std::vector<std::string> urls, std::uint64_t seed) : urls_(std::move(urls)), backoff_(seed) {
  for (std::string& url : urls_)
    while (url.ends_with('/')) url.pop_back();
}

void Endpoints::worked(std::size_t index) noexcept {
  if (index != current_) return;
  failures_ = 0;
  not_before_ms_ = 0;
  backoff_.reset();
}

void Endpoints::failed(std::size_t index, std::int64_t now_ms, std::int64_t took_ms) {
  // If requests that were sent at the same time fail together, they count as one failure.
  if (index != current_ || now_ms < not_before_ms_) return;
  current_ = (current_ + 1) % urls_.size();
  if (++failures_ % urls_.size() == 0) not_before_ms_ = now_ms + backoff_.next_ms() - took_ms;
}

}  // namespace holdfast::etcd
