// Reads and writes the JSON of etcd's gateway in versions 3.4, 3.5 and 3.6. All versions omit values that are false, 0
// or empty, write 64-bit numbers as strings, and encode bytes in base64. The versions differ in how they write errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/store.h"

namespace holdfast::etcd {

/// Encodes base64 as in RFC 4648, with padding.
std::string to_base64(std::string_view bytes);
/// Decodes base64. Returns nothing if the text is not base64.
std::optional<std::string> from_base64(std::string_view text);

// --- requests -------------------------------------------------------------------------------------------

std::string encode_change(const agent::Change& change);
std::string encode_grant(std::int64_t ttl_s);
/// Encodes a keepalive or revoke request.
std::string encode_lease(agent::LeaseId lease);
std::string encode_time_to_live(agent::LeaseId lease);
std::string encode_watch(std::string_view key);
/// Encodes a request for a token. Returns nothing if one of the texts is not UTF-8, which JSON requires.
std::optional<std::string> encode_credentials(const std::string& user, const std::string& password);

/// Returns the first key after all keys with the prefix. If there is no such key, returns one zero byte, which means
/// that the range has no end.
std::string end_of_prefix(std::string_view prefix);

// --- answers --------------------------------------------------------------------------------------------
// Each function returns nothing if the text is not an answer of the expected kind, for example because it was cut off.

/// Decodes the answer to `change`. This needs the change, because the answer does not say to which step each part
/// belongs.
std::optional<agent::Answer> decode_change(const std::string& text, const agent::Change& change);
std::optional<agent::LeaseAnswer> decode_grant(const std::string& text);
/// Decodes the answer to a keepalive, which is the single line of a stream.
std::optional<agent::LeaseAnswer> decode_keep_alive(const std::string& text);
std::optional<agent::LeaseAnswer> decode_time_to_live(const std::string& text);
std::optional<agent::Answer> decode_revoke(const std::string& text);
/// Decodes the answer to a request for a token.
std::optional<std::string> decode_token(const std::string& text);

/// A line of a watch. The record of a deleted key does not have revisions.
struct WatchLine {
  bool created = false;
  bool canceled = false;
  std::string reason;  // the reason of a cancellation, in etcd's words
  std::vector<agent::Record> events;
};
std::optional<WatchLine> decode_watch_line(const std::string& text);

/// An error that is reported in the body of an answer or in a line of a stream.
struct ServerError {
  int code = 0;  // the gRPC code
  std::string message;
};
std::optional<ServerError> decode_error(const std::string& text);

/// Returns the cluster id in the header of any answer, or an empty string if there is none.
std::string_view cluster_in(std::string_view text);

/// The answer to GET /version.
struct ServerVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::string text;

  /// Returns whether a leader that was suspended may, when it resumes, revoke leases that another leader has renewed.
  bool revokes_early() const;
};
std::optional<ServerVersion> decode_version(const std::string& text);

}  // namespace holdfast::etcd
