// Tests requests to etcd's gateway and the answers to them. The answers were recorded with etcd 3.4.23, or follow the
// sources of 3.5 and 3.6.
#include "etcd/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "etcd/errors.h"

namespace holdfast::etcd {
namespace {

using agent::Change;
using agent::Fault;
using agent::Guard;
using agent::Outcome;
using agent::Record;
using agent::Step;

const std::string kHeader =
    R"("header":{"cluster_id":"14655024145418835072","member_id":"11046527456118344142","revision":"7","raft_term":"2"})";

TEST(Base64, matches_the_rfc) {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"},
                                                         {std::string("\0\xff\xfe", 3), "AP/+"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* text : {"Zg=", "Zg", "Z===", "Zm9 ", "====", "Zg==Zg=="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

TEST(Prefix, ends_before_the_next_key_that_does_not_begin_with_it) {
  EXPECT_EQ(end_of_prefix("a/"), "a0");
  EXPECT_EQ(end_of_prefix("a\xff"), "b");
  EXPECT_EQ(end_of_prefix("\xff\xff"), std::string(1, '\0'));
}

TEST(Request, carries_numbers_as_strings_and_keys_as_base64) {
  Change change;
  change.guards = {{Guard::Of::created, "l", 0, false}, {Guard::Of::modified, "q/", 9007199254740993, true}};
  change.then = {Step::put("l", "v", 5), Step::erase("q")};
  change.otherwise = {Step::get("l"), Step::oldest("q/", 8)};
  EXPECT_EQ(encode_change(change),
            R"({"compare":[{"create_revision":"0","key":"bA==","result":"EQUAL","target":"CREATE"},)"
            R"({"key":"cS8=","mod_revision":"9007199254740993","range_end":"cTA=","result":"EQUAL","target":"MOD"}],)"
            R"("failure":[{"request_range":{"key":"bA=="}},{"request_range":{"key":"cS8=","limit":"8",)"
            R"("range_end":"cTA=","sort_order":"ASCEND","sort_target":"CREATE"}}],)"
            R"("success":[{"request_put":{"key":"bA==","lease":"5","value":"dg=="}},)"
            R"({"request_delete_range":{"key":"cQ=="}}]})");
  EXPECT_EQ(encode_watch("b"), R"({"create_request":{"key":"Yg=="}})");
  EXPECT_EQ(encode_grant(10), R"({"TTL":"10"})");
  EXPECT_EQ(encode_lease(706680362900017669), R"({"ID":"706680362900017669"})");
  EXPECT_EQ(encode_time_to_live(5), R"({"ID":"5","keys":true})");
}

TEST(Request, of_a_token_must_be_utf8) {
  EXPECT_EQ(encode_credentials("hf", "a\"b\\\xc3\xa4"), "{\"name\":\"hf\",\"password\":\"a\\\"b\\\\\xc3\xa4\"}");
  EXPECT_EQ(encode_credentials("hf", "\xe4"), std::nullopt);
}

Change two_reads() {
  Change change;
  change.guards = {{Guard::Of::created, "l", 0, false}};
  change.then = {Step::put("l", "v", 5), Step::get("l"), Step::oldest("q/", 8)};
  change.otherwise = {Step::get("l")};
  return change;
}

TEST(Transaction, returns_the_result_of_each_read_in_order) {
  const auto answer = decode_change(
      "{" + kHeader +
          R"(,"succeeded":true,"responses":[{"response_put":{"header":{"revision":"7"}}},)"
          R"({"response_range":{"header":{"revision":"7"},"kvs":[{"key":"bA==","create_revision":"3","mod_revision":"7",)"
          R"("version":"2","value":"dg==","lease":"5"}],"count":"1"}},{"response_range":{"header":{"revision":"7"}}}]})",
      two_reads());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::answered);
  EXPECT_EQ(answer->revision, 7);
  EXPECT_TRUE(answer->guarded);
  ASSERT_EQ(answer->found.size(), 2u);
  ASSERT_EQ(answer->found[0].size(), 1u);
  EXPECT_EQ(answer->found[0][0].key, "l");
  EXPECT_EQ(answer->found[0][0].value, "v");
  EXPECT_EQ(answer->found[0][0].created, 3);
  EXPECT_EQ(answer->found[0][0].modified, 7);
  EXPECT_EQ(answer->found[0][0].lease, 5);
  EXPECT_TRUE(answer->found[1].empty());
}

TEST(Transaction, without_succeeded_means_that_the_other_steps_ran) {
  const auto answer = decode_change(
      "{" + kHeader + R"(,"responses":[{"response_range":{"kvs":[{"key":"bA==","mod_revision":7}]}}]})", two_reads());
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->guarded);
  ASSERT_EQ(answer->found.size(), 1u);
  EXPECT_EQ(answer->found[0][0].modified, 7) << "a JSON number must be accepted like a string";
  EXPECT_EQ(answer->found[0][0].value, "");
  EXPECT_EQ(answer->found[0][0].lease, 0);
}

TEST(Transaction, with_fewer_parts_than_steps_is_invalid) {
  EXPECT_FALSE(decode_change("{" + kHeader + R"(,"succeeded":true,"responses":[{"response_put":{}}]})", two_reads()));
  EXPECT_FALSE(decode_change("{" + kHeader + "}", two_reads()));
  EXPECT_TRUE(decode_change("{" + kHeader + R"(,"succeeded":true})", Change()))
      << "a change without steps has no parts";
  EXPECT_FALSE(decode_change("{" + kHeader + "}", Change())) << "a change without guards must have succeeded";
}

TEST(Lease, answers_omit_zeros) {
  const auto granted = decode_grant("{" + kHeader + R"(,"ID":"706680362900017669","TTL":"5"})");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->lease, 706680362900017669);
  EXPECT_EQ(granted->ttl_s, 5);
  EXPECT_FALSE(decode_grant("{" + kHeader + "}")) << "a lease without an id was accepted";

  const auto kept = decode_keep_alive(R"({"result":{)" + kHeader + R"(,"ID":"77","TTL":"10"}})" + "\n");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ttl_s, 10);
  const auto gone = decode_keep_alive(R"({"result":{)" + kHeader + R"(,"ID":"77"}})");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->ttl_s, 0);

  const auto keys =
      decode_time_to_live("{" + kHeader + R"(,"ID":"77","TTL":"9","grantedTTL":"10","keys":["bA==","cS8="]})");
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->ttl_s, 9);
  EXPECT_THAT(keys->keys, ::testing::ElementsAre("l", "q/"));
  const auto none = decode_time_to_live("{" + kHeader + R"(,"ID":"77","TTL":"-1"})");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->ttl_s, 0);
}

TEST(Lease, an_empty_answer_counts_as_unknown) {
  for (const char* text : {"", "{}", R"({"result":{}})", "null", "[]"}) {
    EXPECT_FALSE(decode_keep_alive(text)) << text;
    EXPECT_FALSE(decode_time_to_live(text)) << text;
    EXPECT_FALSE(decode_revoke(text)) << text;
  }
}

TEST(WatchLine, reports_puts_deletions_and_its_own_end) {
  const auto begun = decode_watch_line(R"({"result":{)" + kHeader + R"(,"created":true}})");
  ASSERT_TRUE(begun);
  EXPECT_TRUE(begun->created);
  EXPECT_FALSE(begun->canceled);

  const auto events = decode_watch_line(
      R"({"result":{)" + kHeader +
      R"(,"events":[{"kv":{"key":"Yg==","create_revision":"3","mod_revision":"7",)"
      R"("version":"1","value":"eA=="}},{"type":"DELETE","kv":{"key":"Yg==","mod_revision":"8"}}]}})");
  ASSERT_TRUE(events);
  ASSERT_EQ(events->events.size(), 2u);
  EXPECT_EQ(events->events[0].value, "x");
  EXPECT_EQ(events->events[0].modified, 7);
  EXPECT_EQ(events->events[1].key, "b");
  EXPECT_EQ(events->events[1].modified, 0);

  const auto denied = decode_watch_line(
      R"({"result":{)" + kHeader +
      R"(,"watch_id":"-1","created":true,"canceled":true,)"
      R"("cancel_reason":"rpc error: code = PermissionDenied desc = etcdserver: permission denied"}})");
  ASSERT_TRUE(denied);
  EXPECT_TRUE(denied->canceled);
  EXPECT_EQ(judge_cancellation(denied->reason, true).fault, Fault::denied);
  EXPECT_EQ(judge_cancellation("etcdserver: invalid auth token", true).token, true);
}

struct Said {
  const char* text;
  long status;
  Outcome outcome;
  Fault fault;
  bool token = false;
  bool elsewhere = false;
};

TEST(Error, has_the_same_meaning_in_each_version) {
  const Said all[] = {
      {R"({"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5})",
       404, Outcome::refused, Fault::no_lease},
      {R"({"code":5,"message":"etcdserver: requested lease not found","details":[]})", 404, Outcome::refused,
       Fault::no_lease},
      {R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}})",
       200, Outcome::refused, Fault::no_leader, false, true},
      {R"({"error":{"code":14,"message":"etcdserver: no leader","details":[]}})", 200, Outcome::refused,
       Fault::no_leader, false, true},
      {R"({"error":"etcdserver: mvcc: database space exceeded","code":8})", 429, Outcome::refused, Fault::no_space},
      {R"({"error":"etcdserver: request is too large","code":3})", 400, Outcome::refused, Fault::too_large},
      {R"({"error":"etcdserver: permission denied","message":"etcdserver: permission denied","code":7})", 403,
       Outcome::refused, Fault::denied},
      {R"({"error":"etcdserver: invalid auth token","message":"etcdserver: invalid auth token","code":16})", 401,
       Outcome::refused, Fault::denied, true},
      {R"({"code":3,"message":"etcdserver: revision of auth store is old"})", 400, Outcome::refused, Fault::denied,
       true},
      {R"({"error":"etcdserver: user name is empty","code":3})", 400, Outcome::refused, Fault::denied, true},
      {R"({"error":"etcdserver: mvcc: required revision has been compacted","code":11})", 400, Outcome::refused,
       Fault::compacted},
      {R"({"error":"etcdserver: duplicate key given in txn request","code":3})", 400, Outcome::refused, Fault::other},
      {R"({"error":"etcdserver: leader changed","code":14})", 503, Outcome::unknown, Fault::other},
      {R"({"error":"etcdserver: request timed out","code":14})", 503, Outcome::unknown, Fault::other},
      {R"({"error":"etcdserver: request timed out, possibly due to previous leader failure","code":14})", 503,
       Outcome::unknown, Fault::other},
      {R"({"error":"context deadline exceeded","code":4})", 504, Outcome::unknown, Fault::other},
      {R"({"error":"raft proposal dropped","code":2})", 500, Outcome::refused, Fault::no_leader, false, true},
      {R"({"error":"who knows","code":2})", 500, Outcome::unknown, Fault::other},
      {"upstream connect error", 503, Outcome::unknown, Fault::other},
      {"Not Found\n", 404, Outcome::refused, Fault::other, false, true},
      {"CommonName of client sending a request against gateway will be ignored and not used as expected\n", 400,
       Outcome::refused, Fault::denied, false, true},
      {"Client sent an HTTP request to an HTTPS server.\n", 400, Outcome::refused, Fault::other, false, true},
  };
  for (const Said& said : all) {
    const Verdict verdict = judge(said.status, said.text, true);
    EXPECT_EQ(verdict.outcome, said.outcome) << said.text;
    if (said.outcome == Outcome::refused) {
      EXPECT_EQ(verdict.fault, said.fault) << said.text;
    }
    EXPECT_EQ(verdict.token, said.token) << said.text;
    EXPECT_EQ(verdict.elsewhere, said.elsewhere) << said.text;
    EXPECT_FALSE(verdict.cause.empty()) << said.text;
  }
}

TEST(Error, requests_no_token_without_a_user) {
  const Verdict verdict = judge(400, R"({"error":"etcdserver: user name is empty","code":3})", false);
  EXPECT_FALSE(verdict.token);
  EXPECT_EQ(
      sentence("http://a:2379", verdict.cause),
      "etcd at http://a:2379 requires a user and a password, but none are configured (says: etcdserver: user name "
      "is empty)");
}

TEST(Version, shows_whether_leases_may_end_early) {
  const std::pair<const char*, bool> all[] = {
      {"3.4.23", true},  {"3.4.30", true}, {"3.4.31", false},     {"3.5.0", true},  {"3.5.12", true},
      {"3.5.13", false}, {"3.6.0", false}, {"3.6.0-rc.1", false}, {"4.0.0", false}, {"3.3.27", true}};
  for (const auto& [text, early] : all) {
    const auto version = decode_version(std::string(R"({"etcdserver":")") + text + R"(","etcdcluster":"3.4.0"})");
    ASSERT_TRUE(version) << text;
    EXPECT_EQ(version->revokes_early(), early) << text;
    EXPECT_EQ(version->text, text);
  }
  for (const char* text : {"", "{}", R"({"etcdserver":"three"})", R"({"etcdserver":3})"})
    EXPECT_FALSE(decode_version(text)) << text;
}

const std::string kTransaction =
    "{" + kHeader +
    R"(,"succeeded":true,"responses":[{"response_put":{}},{"response_range":{"kvs":[{"key":"bA==",)"
    R"("create_revision":"3","mod_revision":"7","value":"dg==","lease":"5"}]}},{"response_range":{}}]})";

TEST(Answer, does_not_count_if_it_was_truncated) {
  for (std::size_t size = 0; size < kTransaction.size(); ++size)
    EXPECT_FALSE(decode_change(kTransaction.substr(0, size), two_reads())) << size;
  EXPECT_TRUE(decode_change(kTransaction, two_reads()));
}

// Every answer must be read without an exception, and without a memory error, which sanitizers detect.
TEST(Answer, may_be_any_text) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string watch = R"({"result":{)" + kHeader + R"(,"events":[{"kv":{"key":"Yg==","value":"eA=="}}]}})";
  const std::string pieces[] = {"{", "}", "[", "]", "\"", "null", "-1", "1e99", "true", "99999999999999999999",
                                ",", ":"};
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 == 0 ? kTransaction : watch;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits)
      text.replace(random() % text.size(), random() % 6, pieces[random() % std::size(pieces)]);
    decode_change(text, two_reads());
    decode_watch_line(text);
    decode_keep_alive(text);
    decode_time_to_live(text);
    decode_grant(text);
    decode_version(text);
    judge(random() % 2 == 0 ? 500 : 400, text, true);
  }
}

}  // namespace
}  // namespace holdfast::etcd
