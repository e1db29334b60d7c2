#include "etcd/etcd_store.h"

#include <optional>
#include <utility>

#include "etcd/json.h"

namespace holdfast::etcd {

using agent::Answer;
using agent::Change;
using agent::LeaseAnswer;
using agent::LeaseId;
using agent::Outcome;

EtcdStore::EtcdStore(Loop& loop, Options options) : client_(loop, std::move(options)), watch_(client_) {}

EtcdStore::~EtcdStore() = default;

void EtcdStore::transact(Change change, std::function<void(const Answer&)> done) {
  std::string body = encode_change(change);
  const Client::Rank rank = change.urgent ? Client::Rank::urgent : Client::Rank::ordinary;
  Client::Wanted wanted = std::move(change.wanted);
  auto kept = std::make_shared<std::optional<Answer>>();
  client_.post(
      "/v3/kv/txn", std::move(body), rank,
      [kept, change = std::move(change)](const std::string& text) {
        *kept = decode_change(text, change);
        return kept->has_value();
      },
      [kept, done = std::move(done)](const Answer& answer) {
        if (answer.outcome != Outcome::answered) return done(answer);
        (*kept)->queued_us = answer.queued_us;
        done(**kept);
      },
      std::move(wanted));
}

void EtcdStore::ask_lease(const std::string& path, const std::string& body,
                          std::optional<LeaseAnswer> (*decode)(const std::string&),
                          std::function<void(const LeaseAnswer&)> done) {
  auto kept = std::make_shared<std::optional<LeaseAnswer>>();
  client_.post(
      path, body, Client::Rank::urgent,
      [kept, decode](const std::string& text) {
        *kept = decode(text);
        return kept->has_value();
      },
      [kept, done = std::move(done)](const Answer& answer) {
        done(answer.outcome == Outcome::answered ? **kept : LeaseAnswer{answer, 0, 0, {}});
      });
}

void EtcdStore::grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) {
  ask_lease("/v3/lease/grant", encode_grant(ttl_s), decode_grant, std::move(done));
}

void EtcdStore::keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  ask_lease("/v3/lease/keepalive", encode_lease(lease), decode_keep_alive, std::move(done));
}

void EtcdStore::keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) {
  ask_lease("/v3/lease/timetolive", encode_time_to_live(lease), decode_time_to_live, std::move(done));
}

void EtcdStore::revoke(LeaseId lease, std::function<void(const Answer&)> done) {
  auto kept = std::make_shared<std::optional<Answer>>();
  client_.post(
      "/v3/lease/revoke", encode_lease(lease), Client::Rank::urgent,
      [kept](const std::string& text) {
        *kept = decode_revoke(text);
        return kept->has_value();
      },
      [kept, done = std::move(done)](const Answer& answer) {
        done(answer.outcome == Outcome::answered ? **kept : answer);
      });
}

void EtcdStore::watch(const std::string& key, std::function<void(const agent::Record&)> rung) {
  watch_.start(key, std::move(rung));
}

void EtcdStore::versions(VersionQuestion::Done done) {
  question_ = std::make_unique<VersionQuestion>(client_, std::move(done));
}

}  // namespace holdfast::etcd
