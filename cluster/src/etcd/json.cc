#include "etcd/json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace holdfast::etcd {

namespace {

using agent::Answer;
using agent::Change;
using agent::Guard;
using agent::LeaseAnswer;
using agent::Outcome;
using agent::Record;
using agent::Step;
using Json = nlohmann::json;

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// --- requests -------------------------------------------------------------------------------------------

// Writes a 64-bit number as text, because a reader may convert a JSON number to a double.
std::string number(std::int64_t value) { return std::to_string(value); }

Json encode(const Guard& guard) {
  const bool created = guard.of == Guard::Of::created;
  Json compare{{"key", to_base64(guard.key)},
               {"result", "EQUAL"},
               {"target", created ? "CREATE" : "MOD"},
               {created ? "create_revision" : "mod_revision", number(guard.revision)}};
  if (guard.prefix) compare["range_end"] = to_base64(end_of_prefix(guard.key));
  return compare;
}

Json encode_range(const Step& step) {
  Json range{{"key", to_base64(step.key)}};
  if (step.kind == Step::Kind::oldest) {
    range["range_end"] = to_base64(end_of_prefix(step.key));
    range["limit"] = number(step.limit);
    range["sort_target"] = "CREATE";
    range["sort_order"] = "ASCEND";
  }
  return {{"request_range", range}};
}

Json encode(const Step& step) {
  if (step.kind == Step::Kind::put) {
    Json put{{"key", to_base64(step.key)}, {"value", to_base64(step.value)}};
    if (step.lease != 0) put["lease"] = number(step.lease);
    return {{"request_put", put}};
  }
  if (step.kind == Step::Kind::erase) return {{"request_delete_range", {{"key", to_base64(step.key)}}}};
  return encode_range(step);
}

template <class Part>
Json encode_all(const std::vector<Part>& parts) {
  Json all = Json::array();
  for (const Part& part : parts) all.push_back(encode(part));
  return all;
}

// --- answers --------------------------------------------------------------------------------------------

// Thrown if a part has an unexpected type. Never leaves this file.
struct Malformed {};

Json parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw Malformed();
  return json;
}

const Json* find(const Json& object, const char* name) {
  if (!object.is_object()) throw Malformed();
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// Returns the member with this name. If there is none, returns `none`, which must have the expected type.
const Json& find_typed(const Json& object, const char* name, const Json& none) {
  const Json* found = find(object, name);
  if (found == nullptr) return none;
  if (found->type() != none.type()) throw Malformed();
  return *found;
}

const Json& part(const Json& object, const char* name) {
  static const Json none = Json::object();
  return find_typed(object, name, none);
}

const Json& list(const Json& object, const char* name) {
  static const Json none = Json::array();
  return find_typed(object, name, none);
}

std::int64_t number_in(const Json& object, const char* name) {
  const Json* found = find(object, name);
  if (found == nullptr) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) throw Malformed();
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw Malformed();
  return value;
}

std::string text_in(const Json& object, const char* name) {
  const Json* found = find(object, name);
  if (found == nullptr) return {};
  if (!found->is_string()) throw Malformed();
  return found->get<std::string>();
}

bool flag_in(const Json& object, const char* name) {
  const Json* found = find(object, name);
  if (found == nullptr) return false;
  if (!found->is_boolean()) throw Malformed();
  return found->get<bool>();
}

std::string bytes(const std::string& base64) {
  auto decoded = from_base64(base64);
  if (!decoded) throw Malformed();
  return *std::move(decoded);
}

// Returns the revision. Every answer to an executed request has a revision. If a body has none, it is empty or does not
// come from etcd.
std::int64_t revision_of(const Json& answer) {
  const Json* header = find(answer, "header");
  if (header == nullptr) throw Malformed();
  return number_in(*header, "revision");
}

Record decode_record(const Json& kv) {
  Record record;
  record.key = bytes(text_in(kv, "key"));
  record.value = bytes(text_in(kv, "value"));
  record.created = number_in(kv, "create_revision");
  record.modified = number_in(kv, "mod_revision");
  record.lease = number_in(kv, "lease");
  return record;
}

std::vector<Record> decode_range(const Json& response) {
  std::vector<Record> records;
  for (const Json& kv : list(part(response, "response_range"), "kvs")) records.push_back(decode_record(kv));
  return records;
}

LeaseAnswer decode_lease(const Json& answer) {
  if (!text_in(answer, "error").empty()) throw Malformed();
  LeaseAnswer lease;
  lease.answer.outcome = Outcome::answered;
  lease.answer.revision = revision_of(answer);
  lease.lease = number_in(answer, "ID");
  lease.ttl_s = std::max<std::int64_t>(number_in(answer, "TTL"), 0);  // -1 means that the lease is gone
  for (const Json& key : list(answer, "keys")) {
    if (!key.is_string()) throw Malformed();
    lease.keys.push_back(bytes(key.get<std::string>()));
  }
  return lease;
}

// Returns the result in a line of a stream. If the stream is cut off, its last line may be incomplete.
const Json& result_of(const Json& line) {
  const Json* result = find(line, "result");
  if (result == nullptr || !result->is_object()) throw Malformed();
  return *result;
}

template <class Decode>
auto unless_malformed(Decode decode) -> std::optional<decltype(decode())> {
  try {
    return decode();
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kDigits[bits << (6 - count) & 63];
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  if (text.ends_with("==")) {
    text.remove_suffix(2);
  } else if (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char digit : text) {
    const std::size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return {'\0'};
  ++end.back();
  return end;
}

std::string encode_change(const Change& change) {
  return Json{{"compare", encode_all(change.guards)},
              {"success", encode_all(change.then)},
              {"failure", encode_all(change.otherwise)}}
      .dump();
}

std::string encode_grant(std::int64_t ttl_s) { return Json{{"TTL", number(ttl_s)}}.dump(); }

std::string encode_lease(agent::LeaseId lease) { return Json{{"ID", number(lease)}}.dump(); }

std::string encode_time_to_live(agent::LeaseId lease) { return Json{{"ID", number(lease)}, {"keys", true}}.dump(); }

std::string encode_watch(std::string_view key) { return Json{{"create_request", {{"key", to_base64(key)}}}}.dump(); }

std::optional<std::string> encode_credentials(const std::string& user, const std::string& password) {
  try {
    return Json{{"name", user}, {"password", password}}.dump();
  } catch (const Json::type_error&) {
    return std::nullopt;
  }
}

std::optional<Answer> decode_change(const std::string& text, const Change& change) {
  return unless_malformed([&] {
    const Json json = parse(text);
    Answer answer;
    answer.outcome = Outcome::answered;
    answer.revision = revision_of(json);
    answer.guarded = flag_in(json, "succeeded");
    if (change.guards.empty() && !answer.guarded) throw Malformed();
    const std::vector<Step>& steps = answer.guarded ? change.then : change.otherwise;
    const Json& responses = list(json, "responses");
    if (responses.size() != steps.size()) throw Malformed();
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i].kind == Step::Kind::get || steps[i].kind == Step::Kind::oldest)
        answer.found.push_back(decode_range(responses[i]));
    return answer;
  });
}

std::optional<LeaseAnswer> decode_grant(const std::string& text) {
  auto lease = unless_malformed([&] { return decode_lease(parse(text)); });
  if (lease && (lease->lease == 0 || lease->ttl_s == 0)) return std::nullopt;
  return lease;
}

std::optional<LeaseAnswer> decode_keep_alive(const std::string& text) {
  return unless_malformed([&] { return decode_lease(result_of(parse(text))); });
}

std::optional<LeaseAnswer> decode_time_to_live(const std::string& text) {
  return unless_malformed([&] { return decode_lease(parse(text)); });
}

std::optional<Answer> decode_revoke(const std::string& text) {
  return unless_malformed([&] {
    Answer answer;
    answer.outcome = Outcome::answered;
    answer.revision = revision_of(parse(text));
    return answer;
  });
}

std::optional<std::string> decode_token(const std::string& text) {
  auto token = unless_malformed([&] { return text_in(parse(text), "token"); });
  if (token && token->empty()) return std::nullopt;
  return token;
}

std::optional<WatchLine> decode_watch_line(const std::string& text) {
  return unless_malformed([&] {
    const Json json = parse(text);
    const Json& result = result_of(json);
    WatchLine line;
    line.created = flag_in(result, "created");
    line.canceled = flag_in(result, "canceled");
    line.reason = text_in(result, "cancel_reason");
    for (const Json& event : list(result, "events")) {
      line.events.push_back(decode_record(part(event, "kv")));
      if (text_in(event, "type") == "DELETE") line.events.back().created = line.events.back().modified = 0;
    }
    return line;
  });
}

std::optional<ServerError> decode_error(const std::string& text) {
  auto error = unless_malformed([&] {
    const Json json = parse(text);
    const Json* inner = find(json, "error");  // an object in a line of a stream; otherwise, 3.4 and 3.5 repeat the text
    const Json& object = inner != nullptr && inner->is_object() ? *inner : json;
    const auto code = find(object, "grpc_code") != nullptr ? number_in(object, "grpc_code") : number_in(object, "code");
    std::string message = text_in(object, "message");
    if (message.empty() && &object == &json) message = text_in(json, "error");
    return ServerError{static_cast<int>(code), std::move(message)};
  });
  if (error && error->code == 0 && error->message.empty()) return std::nullopt;
  return error;
}

bool ServerVersion::revokes_early() const {
  const std::tuple version(major, minor, patch);
  return version < std::tuple(3, 4, 31) || (version >= std::tuple(3, 5, 0) && version < std::tuple(3, 5, 13));
}

// Searches for the text, because keys and values are base64, so only the header can contain it.
std::string_view cluster_in(std::string_view text) {
  constexpr std::string_view kBefore = R"("cluster_id":")";
  const std::size_t found = text.find(kBefore);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = text.substr(found + kBefore.size());
  return rest.substr(0, rest.find('"'));
}

std::optional<ServerVersion> decode_version(const std::string& text) {
  return unless_malformed([&] {
    ServerVersion version;
    version.text = text_in(parse(text), "etcdserver");
    const char* at = version.text.data();
    const char* const end = at + version.text.size();
    for (int* number : {&version.major, &version.minor, &version.patch}) {
      const auto [next, error] = std::from_chars(at, end, *number);
      if (error != std::errc()) throw Malformed();
      at = next != end && *next == '.' ? next + 1 : next;
    }
    return version;
  });
}

}  // namespace holdfast::etcd
