#include "serve/request.h"

#include <algorithm>
#include <cctype>

#include "base/name.h"

namespace holdfast::serve {

namespace {

constexpr std::string_view kEnd = "\r\n\r\n";

char lower(char c) noexcept { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool is_same_word(std::string_view one, std::string_view other) noexcept {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// Cuts off the next line and returns it.
std::string_view next_line(std::string_view& rest) noexcept {
  const std::size_t end = std::min(rest.find("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 2, rest.size()));
  return line;
}

/// Returns the target without "http://HOST", which clients send to a proxy. Returns nothing if the target is invalid.
std::string_view path_of(std::string_view target, std::string& host) {
  constexpr std::string_view kScheme = "http://";
  if (!is_same_word(target.substr(0, kScheme.size()), kScheme)) return target;
  target.remove_prefix(kScheme.size());
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  host = target.substr(0, end);
  if (host.empty()) return {};
  return end == target.size() || target[end] == '?' ? "/" : target.substr(end);
}

bool parse_line(std::string_view line, Request& request, std::string& named_host) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last <= first || !line.substr(last + 1).starts_with("HTTP/1.")) return false;
  const std::string_view target = path_of(line.substr(first + 1, last - first - 1), named_host);
  if (!target.starts_with('/') || target.find(' ') != std::string_view::npos) return false;
  const auto path = decode_percents(target.substr(0, target.find('?')));
  if (!path) return false;
  request.method = line.substr(0, first);
  request.path = *path;
  return true;
}

std::string* field_of(Request& request, std::string_view name) noexcept {
  if (is_same_word(name, "Host")) return &request.host;
  if (is_same_word(name, "Authorization")) return &request.authorization;
  return is_same_word(name, "Accept") ? &request.accept : nullptr;
}

}  // namespace

bool is_complete(std::string_view received) noexcept { return received.find(kEnd) != std::string_view::npos; }

std::optional<Request> parse_request(std::string_view received) {
  Request request;
  std::string named_host;
  std::string_view rest = received.substr(0, received.find(kEnd));
  if (rest.find('\0') != std::string_view::npos || !parse_line(next_line(rest), request, named_host))
    return std::nullopt;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0 || line.front() == ' ' || line.front() == '\t')
      return std::nullopt;
    std::string* const field = field_of(request, line.substr(0, colon));
    if (field == nullptr) continue;
    if (!field->empty() && field != &request.accept) return std::nullopt;
    *field = trimmed(line.substr(colon + 1));
  }
  // RFC 9112, 3.2.2: the target's host takes precedence over the field.
  if (!named_host.empty()) request.host = named_host;
  return request;
}

bool names_loopback(std::string_view host) noexcept {
  const std::size_t name_end = host.starts_with('[') ? host.find(']') : host.find(':');
  const bool is_bracketed = host.starts_with('[');
  if (is_bracketed && name_end == std::string_view::npos) return false;
  const std::size_t end = std::min(is_bracketed ? name_end + 1 : name_end, host.size());
  const std::string_view name = host.substr(0, end);
  const std::string_view port = host.substr(end);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!port.empty() && (port.front() != ':' || !std::all_of(port.begin() + 1, port.end(), is_digit))) return false;
  if (is_same_word(name, "localhost") || name == "[::1]") return true;
  constexpr std::string_view kNet = "127.";
  return name.starts_with(kNet) && std::count(name.begin(), name.end(), '.') == 3 &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_digit(c) || c == '.'; });
}

bool is_authorized(std::string_view authorization, std::string_view token) noexcept {
  const std::size_t blank = std::min(authorization.find(' '), authorization.size());
  const std::string_view given = trimmed(authorization.substr(blank));
  unsigned different = is_same_word(authorization.substr(0, blank), "Bearer") ? 0U : 1U;
  different |= given.size() == token.size() ? 0U : 1U;
  // Always compare as many bytes as the token has, so that the comparison takes constant time.
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned>(static_cast<unsigned char>(c) ^ static_cast<unsigned char>(token[i]));
  }
  return different == 0;
}

}  // namespace holdfast::serve
