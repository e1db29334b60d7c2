// What etcd's JSON gateway reads and says, as of 3.4, 3.5 and 3.6. All leave out what is false, 0 or empty; 64-bit
// numbers are strings; bytes are base64. They differ in how an error is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/store.h"

namespace holdfast::etcd {

/// Base64 of RFC 4648, with padding.
std::string to_base64(std::string_view bytes);
/// Nothing if it is not base64.
std::optional<std::string> from_base64(std::string_view text);

// --- requests -------------------------------------------------------------------------------------------

std::string encode_change(const agent::Change& change);
std::string encode_grant(std::int64_t ttl_s);
/// Of keepalive and revoke.
std::string encode_lease(agent::LeaseId lease);
std::string encode_time_to_live(agent::LeaseId lease);
std::string encode_watch(std::string_view key);
/// Nothing if one of them is not UTF-8, which JSON has to be.
std::optional<std::string> encode_credentials(const std::string& user, const std::string& password);

/// The first key after all that begin with the prefix; one zero byte, which stands for no end, if there is none.
std::string end_of_prefix(std::string_view prefix);

// --- answers --------------------------------------------------------------------------------------------
// Each is nothing if the text is not such an answer, for instance because it was cut off.

/// Needs the change, as the answer does not say which step a part belongs to.
std::optional<agent::Answer> decode_change(const std::string& text, const agent::Change& change);
std::optional<agent::LeaseAnswer> decode_grant(const std::string& text);
/// Of a keepalive: it comes as the one line of a stream.
std::optional<agent::LeaseAnswer> decode_keep_alive(const std::string& text);
std::optional<agent::LeaseAnswer> decode_time_to_live(const std::string& text);
std::optional<agent::Answer> decode_revoke(const std::string& text);
/// The token.
std::optional<std::string> decode_token(const std::string& text);

/// A line of a watch. A deleted key's record has no revisions.
struct WatchLine {
  bool created = false;
  bool canceled = false;
  std::string reason;  // of the cancellation, in etcd's words
  std::vector<agent::Record> events;
};
std::optional<WatchLine> decode_watch_line(const std::string& text);

/// An error, as the body of an answer, or as the line of a stream.
struct ServerError {
  int code = 0;  // of gRPC
  std::string message;
};
std::optional<ServerError> decode_error(const std::string& text);

/// The id of the cluster in the header of any answer; empty if there is none.
std::string_view cluster_in(std::string_view text);

/// What GET /version says.
struct ServerVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::string text;

  /// Whether a leader that was stopped and goes on may revoke leases that another leader has renewed.
  bool revokes_early() const;
};
std::optional<ServerVersion> decode_version(const std::string& text);

}  // namespace holdfast::etcd
