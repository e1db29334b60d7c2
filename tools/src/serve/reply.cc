#include "serve/reply.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "inspect/json.h"
#include "serve/page.h"

namespace holdfast::serve {

namespace {

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr std::string_view kApi = "/api/v1/";
constexpr std::string_view kDictionary = "dictionaries/";
constexpr std::string_view kHistory = "history";

const char* reason(int status) {
  constexpr std::array<std::pair<int, const char*>, 9> kReasons{{{200, "OK"},
                                                                 {400, "Bad Request"},
                                                                 {401, "Unauthorized"},
                                                                 {403, "Forbidden"},
                                                                 {404, "Not Found"},
                                                                 {405, "Method Not Allowed"},
                                                                 {408, "Request Timeout"},
                                                                 {431, "Request Header Fields Too Large"},
                                                                 {503, "Service Unavailable"}}};
  for (const auto& [number, text] : kReasons)
    if (number == status) return text;
  return "";
}

// Headers that allow no content from other hosts, no inline code or style, and no frame around the page.
constexpr const char* kAlways =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n";

}  // namespace

Place find(const Request& request) {
  const std::string_view path = request.path;
  if (path == "/metrics") {
    const bool is_open = request.accept.find("application/openmetrics-text") != std::string::npos;
    return {Source::world, is_open ? "openmetrics" : "metrics", is_open ? kOpenMetricsType : kMetricsType};
  }
  if (const PageFile* const file = find_page(path)) return {Source::page, request.path, file->type};
  if (!path.starts_with(kApi)) return {};
  const std::string_view name = path.substr(kApi.size());
  if (name == "doctor") return {Source::doctor, "doctor"};
  if (name == "dictionaries" || name == "locks" || name == "histograms" || name == "contention")
    return {Source::world, std::string(name)};
  if (name.starts_with(kDictionary) && name.size() > kDictionary.size())
    return {Source::world, "dictionary/" + std::string(name.substr(kDictionary.size()))};
  if (name == kHistory) return {Source::history};
  if (!name.starts_with(kHistory) || name[kHistory.size()] != '/') return {};
  Place place{Source::history};
  const std::string_view number = name.substr(kHistory.size() + 1);
  const char* const end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, place.from);
  return parsed.ec == std::errc() && parsed.ptr == end ? place : Place{};
}

Reply judge(const Request& request, const Place& place, const Settings& settings) {
  if (settings.is_loopback && !names_loopback(request.host))
    return refusal(403, "this server is local: the Host field must be localhost, 127.0.0.1 or [::1]");
  if (request.method != "GET" && request.method != "HEAD") return refusal(405, "unsupported method; use GET or HEAD");
  // The page itself needs no token: it contains no secrets, and asks the user for the token.
  const bool is_open = settings.token.empty() || place.source == Source::page;
  if (!is_open && !is_authorized(request.authorization, settings.token))
    return refusal(401, "a valid token is required: Authorization: Bearer TOKEN");
  if (place.source == Source::none)
    return refusal(404,
                   "no such path; the paths are /, /metrics, and under /api/v1/: dictionaries, dictionaries/NAME, "
                   "locks, histograms, contention, history, history/NUMBER and doctor");
  return {};
}

Reply refusal(int status, const std::string& sentence) {
  inspect::Json json;
  inspect::add_text(json, "error", sentence);
  const std::string text = inspect::to_text(json, inspect::Layout::line) + "\n";
  return {status, "application/json", {std::make_shared<const std::string>(text)}};
}

std::string head_of(const Reply& reply) {
  std::size_t size = 0;
  for (const Text& part : reply.body) size += part->size();
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", reply.status,
                                 reason(reply.status), reply.type, size);
  if (reply.status == 401) text += "WWW-Authenticate: Bearer realm=\"holdfast\"\r\n";
  if (reply.status == 405) text += "Allow: GET, HEAD\r\n";
  text += kAlways;
  return text + "\r\n";
}

}  // namespace holdfast::serve
