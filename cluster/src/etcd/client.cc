#include "etcd/client.h"

#include <algorithm>
#include <utility>

#include "etcd/json.h"

namespace holdfast::etcd {

namespace {

using agent::Answer;
using agent::Fault;
using agent::Outcome;

constexpr std::size_t kMostComplaints = 64;
constexpr std::int64_t kRefusalEveryMs = 60'000;

}  // namespace

// A request with all its attempts.
class Client::Call {
 public:
  Call(Client& client, Request request, std::string path, Rank rank, Understand understand, Done done,
       Wanted wanted = {})
      : client_(client),
        rank_(rank),
        request_(std::move(request)),
        path_(std::move(path)),
        understand_(std::move(understand)),
        done_(std::move(done)),
        wanted_(std::move(wanted)),
        attempts_left_(client.endpoints_.size()) {}
  ~Call() { client_.loop_.cancel(timer_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Rank rank() const { return rank_; }
  bool is_wanted() const { return !wanted_ || wanted_(); }
  /// Takes the next step towards an answer. Never ends the call before this function returns.
  void attempt() {
    const std::int64_t pause = client_.endpoints_.pause_ms(boottime_ms());
    if (pause > 0) {
      timer_ = client_.loop_.after(pause, [this] { attempt(); });
      return;
    }
    endpoint_ = client_.endpoints_.current();
    if (client_.auth_.lacks_token()) {
      client_.auth_.obtain(url(), request_.timeout_ms, [this, alive = std::weak_ptr<int>(alive_)](const Verdict* why) {
        if (!alive.expired()) authenticated(why);
      });
      return;
    }
    send();
  }

 private:
  const std::string& url() const { return client_.endpoints_.url(endpoint_); }

  void authenticated(const Verdict* failure) {
    if (failure == nullptr) return send();
    Verdict verdict = *failure;
    if (verdict.outcome == Outcome::unknown) verdict.elsewhere = true;  // the request itself was not sent
    conclude(verdict);
  }

  void send() {
    sent_us_ = boottime_us();
    token_ = client_.auth_.token();
    Request request = request_;
    request.url = url() + path_;
    request.headers = client_.headers(token_);
    transfer_ = client_.http_.send(std::move(request), [this](const Response& response) { answered(response); });
  }

  void answered(const Response& response) {
    const auto transfer = std::move(transfer_);
    if (!response.ended)
      return conclude({.elsewhere = !response.may_have_sent, .cause = "does not answer: " + response.failure});
    if (response.status != 200) return conclude(judge(response.status, response.body, client_.auth_.has_user()));
    if (const auto stranger = client_.judge_cluster(endpoint_, response.body)) return conclude(*stranger);
    if (understand_(response.body)) {
      client_.worked(endpoint_);
      Answer answer;
      answer.outcome = Outcome::answered;
      return finish(answer);
    }
    conclude(judge_not_understood(response.body));
  }

  // Judges a body that was not understood. A stream reports errors in an answer with status 200. If a token is unknown,
  // some versions report nothing at all.
  Verdict judge_not_understood(const std::string& body) {
    if (const auto error = decode_error(body)) return judge(*error, client_.auth_.has_user());
    client_.auth_.reject(token_);
    return {.cause = body.empty() ? "sent an empty answer" : "sent an answer that is not from etcd"};
  }

  void conclude(const Verdict& verdict) {
    if (verdict.token && !renewed_) {
      renewed_ = true;
      client_.auth_.reject(token_);
      return attempt();
    }
    const std::string text = sentence(url(), verdict.cause);
    if (verdict.elsewhere || verdict.outcome == Outcome::unknown) {
      client_.leave(endpoint_, text, (boottime_us() - sent_us_) / 1000);
      if (verdict.elsewhere && --attempts_left_ > 0) return attempt();
    } else {
      client_.worked(endpoint_);
      client_.complain_of_refusal(verdict.fault, text);
    }
    Answer answer;
    answer.outcome = verdict.outcome;
    answer.fault = verdict.outcome == Outcome::refused ? verdict.fault : Fault::none;
    answer.sentence = text;
    finish(answer);
  }

  void finish(const Answer& answer) {
    auto& calls = client_.calls_;
    const auto self = std::find_if(calls.begin(), calls.end(), [this](const auto& call) { return call.get() == this; });
    const std::unique_ptr<Call> kept = std::move(*self);
    if (&*self != &calls.back()) *self = std::move(calls.back());
    calls.pop_back();
    if (rank_ == Rank::ordinary) --client_.ordinary_;
    client_.begin_waiting();
    Answer timed = answer;
    timed.queued_us = sent_us_ - asked_us_;
    done_(timed);
  }

  Client& client_;
  const Rank rank_;
  const Request request_;
  const std::string path_;
  const Understand understand_;
  const Done done_;
  const Wanted wanted_;
  const std::int64_t asked_us_ = boottime_us();
  std::int64_t sent_us_ = asked_us_;  // the time of the last attempt
  std::size_t attempts_left_;
  bool renewed_ = false;
  std::size_t endpoint_ = 0;
  std::string token_;
  Loop::TimerId timer_ = 0;
  std::unique_ptr<Transfer> transfer_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

Client::Client(Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      http_(loop, options_.tls),
      auth_(loop, http_, options_.credentials, [this](const std::string& text) { complain(text); }),
      endpoints_(options_.endpoints, options_.seed) {}

Client::~Client() = default;

void Client::post(const std::string& path, std::string body, Rank rank, Understand understand, Done done,
                  Wanted wanted) {
  Request request;
  request.body = std::move(body);
  request.timeout_ms = options_.timeout_ms;
  auto call = std::make_unique<Call>(*this, std::move(request), path, rank, std::move(understand), std::move(done),
                                     std::move(wanted));
  if (rank == Rank::urgent) return begin(std::move(call));
  waiting_.push_back(std::move(call));
  begin_waiting();
}

void Client::get(const std::string& path, Understand understand, Done done) {
  Request request;
  request.method = Request::Method::get;
  request.timeout_ms = options_.timeout_ms;
  begin(std::make_unique<Call>(*this, std::move(request), path, Rank::urgent, std::move(understand), std::move(done)));
}

void Client::begin_waiting() {
  while (!waiting_.empty() && ordinary_ < kAtOnce) {
    std::unique_ptr<Call> next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next->is_wanted()) begin(std::move(next));
  }
}

void Client::begin(std::unique_ptr<Call> call) {
  if (call->rank() == Rank::ordinary) ++ordinary_;
  calls_.push_back(std::move(call));
  calls_.back()->attempt();
}

void Client::leave(std::size_t endpoint, const std::string& text, std::int64_t took_ms) {
  if (endpoint != endpoints_.current()) return;
  endpoints_.failed(endpoint, boottime_ms(), took_ms);
  complain(text);
  if (moved_ && endpoints_.size() > 1) moved_();
}

void Client::worked(std::size_t endpoint) {
  endpoints_.worked(endpoint);
  complaints_.clear();
}

std::optional<Verdict> Client::judge_cluster(std::size_t endpoint, const std::string& text) {
  Identity* const identity = options_.identity;
  const std::string_view id = cluster_in(text);
  const std::int64_t now = boottime_ms();
  if (identity == nullptr || identity->hear(endpoint, id, now)) return std::nullopt;
  Verdict verdict;
  verdict.cause = "belongs to a different etcd cluster: " + shown_id(id) + ", expected " + shown_id(identity->known());
  if (identity->known().empty())
    verdict.cause = "belongs to etcd cluster " + shown_id(id) + ", to which only " +
                    std::to_string(identity->count(id, now)) + " of " + std::to_string(endpoints_.size()) +
                    " endpoints belong: expected a majority";
  return verdict;
}

void Client::complain(const std::string& text) {
  if (complaints_.size() >= kMostComplaints) complaints_.clear();
  if (complaints_.insert(text).second && options_.complain) options_.complain(text);
}

void Client::complain_of_refusal(Fault fault, const std::string& text) {
  if (fault == Fault::no_lease) return;
  const std::int64_t now = boottime_ms();
  if (refusals_.size() >= kMostComplaints) refusals_.clear();
  const auto [reported, is_new] = refusals_.try_emplace(text, now);
  if (!is_new && now - reported->second < kRefusalEveryMs) return;
  reported->second = now;
  if (options_.complain) options_.complain(text);
}

std::vector<std::string> Client::headers(const std::string& token) const {
  // With this header, a server that has no leader reports this immediately, instead of waiting for a leader.
  std::vector<std::string> headers{"Grpc-Metadata-hasleader: true"};
  if (!token.empty()) headers.push_back("Authorization: " + token);
  return headers;
}

}  // namespace holdfast::etcd
