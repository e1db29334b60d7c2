#include "service/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "base/name.h"
#include "etcd/http.h"
#include "platform/platform.h"

namespace holdfast::agent {

namespace {

using Json = nlohmann::json;

constexpr Milliseconds kMsMax = 60'000;
constexpr const char* kTextsWanted = "expected a list of at least one string";

std::string quoted(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string read_text(const Json& value, std::string& to) {
  if (!value.is_string()) return "expected a string";
  to = value.get<std::string>();
  return {};
}

// Reads a name. Refuses an empty name, because it would count as absent. For example, "ca": "" would mean any CA of the
// system.
std::string read_name(const Json& value, std::string& to) {
  if (std::string bad = read_text(value, to); !bad.empty()) return bad;
  return to.empty() ? "expected a string that is not empty" : "";
}

std::string read_texts(const Json& value, std::vector<std::string>& to) {
  if (!value.is_array() || value.empty()) return kTextsWanted;
  to.clear();
  for (const Json& one : value) {
    to.emplace_back();
    if (std::string bad = read_text(one, to.back()); !bad.empty()) return kTextsWanted;
  }
  return {};
}

std::string read_number(const Json& value, std::int64_t least, std::int64_t most, std::int64_t& to) {
  if (value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most) {
    to = value.get<std::int64_t>();
    return {};
  }
  return "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

std::string read_flag(const Json& value, bool& to) {
  if (!value.is_boolean()) return "expected true or false";
  to = value.get<bool>();
  return {};
}

/// Reads a field into the configuration. Returns an empty string, or which value was expected.
using Reader = std::function<std::string(const Json&, Config&)>;

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{
      {"endpoints", [](const Json& v, Config& c) { return read_texts(v, c.endpoints); }},
      {"namespace", [](const Json& v, Config& c) { return read_text(v, c.space); }},
      {"user", [](const Json& v, Config& c) { return read_name(v, c.user); }},
      {"password_file", [](const Json& v, Config& c) { return read_name(v, c.password_file); }},
      {"ca", [](const Json& v, Config& c) { return read_name(v, c.ca); }},
      {"cert", [](const Json& v, Config& c) { return read_name(v, c.cert); }},
      {"key", [](const Json& v, Config& c) { return read_name(v, c.key); }},
      {"state_directory", [](const Json& v, Config& c) { return read_name(v, c.state_directory); }},
      {"require_fixed_etcd", [](const Json& v, Config& c) { return read_flag(v, c.require_fixed_etcd); }},
      {"ttl", [](const Json& v, Config& c) { return read_number(v, kTtlMin, kTtlMax, c.settings.ttl_s); }},
      {"slice_ms", [](const Json& v, Config& c) { return read_number(v, 0, kMsMax, c.settings.slice_ms); }},
      {"max_hold_ms", [](const Json& v, Config& c) { return read_number(v, 0, kMsMax, c.settings.max_hold_ms); }},
      {"linger_ms", [](const Json& v, Config& c) { return read_number(v, 1, kMsMax, c.settings.linger_ms); }},
  };
  return all;
}

std::string accepted_fields() {
  std::string names;
  for (const auto& [name, reader] : readers()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

Status refuse(const std::string& source, const std::string& what) { return {Code::invalid, source + ": " + what}; }

/// Checks that this process can read the file and, if the file is secret, that other users cannot read it.
Status check_file(const std::string& path, bool secret) {
  struct stat info {};
  // Open the file first, so that the kernel reports the error. A directory can be opened, too.
  const platform::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file || ::fstat(file.get(), &info) != 0)
    return {errno == ENOENT ? Code::not_found : Code::permission,
            "cannot read " + path + ": " + platform::error_text(errno)};
  if (!S_ISREG(info.st_mode)) return {Code::invalid, path + " is not a regular file"};
  if (secret && (info.st_mode & 0007) != 0)
    return {Code::permission, path + " is open to all users: expected mode 0640 or less; run chmod o= " + path};
  return {};
}

Expected<std::string> read_file(const std::string& path) {
  if (Status bad = check_file(path, false); !bad.ok()) return bad;
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Expected<Json> parse(const std::string& text, const std::string& path) try {
  Json root = Json::parse(text);
  if (!root.is_object())
    return refuse(path, "expected one JSON object, such as {\"endpoints\": [\"https://host:2379\"]}");
  return root;
} catch (const Json::parse_error& error) {
  const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 2, column 1: ..."
  return refuse(path, what.substr(std::min(what.size(), what.find("] ") + 2)));
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string this_boot() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

/// Returns the URL in the form in which it may appear in the log: without the part before the host, which may contain a
/// password.
std::string without_secret(const std::string& url) {
  const std::size_t at = url.rfind('@');
  return at == std::string::npos ? url : "..." + url.substr(at);
}

}  // namespace

std::string config_path(const std::string& cluster) { return "/etc/holdfast/" + cluster + ".json"; }

Config default_config(const std::string& cluster) {
  Config config;
  config.cluster = cluster;
  config.space = "holdfast/" + cluster;
  config.settings.host = this_host();
  config.settings.machine = this_boot();
  return config;
}

Expected<Config> read_config(const std::string& cluster, const std::string& path) {
  const auto text = read_file(path);
  if (!text)
    return Status{text.status().code, "no configuration of cluster " + quote(cluster) + ": " + text.status().message};
  auto root = parse(*text, path);
  if (!root) return root.status();
  // Check the mode after the content, so that no message suggests protecting a file that is not a configuration.
  if (const Status bad = check_file(path, true); !bad.ok())
    return Status{bad.code, "no configuration of cluster " + quote(cluster) + ": " + bad.message};
  Config config = default_config(cluster);
  for (const auto& [name, value] : root->items()) {
    const auto reader = readers().find(name);
    if (reader == readers().end())
      return refuse(path, "unknown field " + quote(name) + ": expected one of " + accepted_fields());
    if (const std::string bad = reader->second(value, config); !bad.empty())
      return refuse(path, fmt::format("bad {} {}: {}", name, quoted(value), bad));
  }
  if (const Status bad = check_config(config, path); !bad.ok()) return bad;
  return config;
}

std::string endpoint_in_clear(const Config& config) {
  if (config.user.empty()) return {};
  const auto is_in_clear = [](const std::string& url) {
    constexpr const char* kOwn[] = {"http://127.", "http://localhost:", "http://[::1]:"};
    const std::string scheme = "https://";
    const bool is_tls = url.size() > scheme.size() && ::strncasecmp(url.c_str(), scheme.c_str(), scheme.size()) == 0;
    return !is_tls &&
           std::none_of(std::begin(kOwn), std::end(kOwn), [&](const char* own) { return url.starts_with(own); });
  };
  const auto found = std::find_if(config.endpoints.begin(), config.endpoints.end(), is_in_clear);
  return found != config.endpoints.end() ? *found : "";
}

Status check_config(const Config& config, const std::string& source) {
  if (config.endpoints.empty()) return refuse(source, "no endpoints: expected URLs such as \"https://host:2379\"");
  for (const std::string& endpoint : config.endpoints)
    if (!etcd::is_endpoint(endpoint))
      return refuse(source, "bad endpoint " + quote(without_secret(endpoint)) +
                                ": expected a URL with a scheme, a host and a port, such as \"https://host:2379\"");
  if (config.space.empty() || config.space.ends_with('/') || config.space.find('\0') != std::string::npos)
    return refuse(source, "bad namespace " + quote(config.space) +
                              ": expected a prefix without zero bytes that does not end in \"/\"");
  if (config.settings.slice_ms > config.settings.max_hold_ms)
    return refuse(source, fmt::format("slice_ms is {}: expected at most max_hold_ms, which is {}",
                                      config.settings.slice_ms, config.settings.max_hold_ms));
  if (config.user.empty() != config.password_file.empty())
    return refuse(source, "user and password_file: expected both or neither");
  struct stat info {};
  if (!config.state_directory.empty() && (::stat(config.state_directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)))
    return refuse(source, "bad state_directory " + quote(config.state_directory) + ": expected a directory");
  if (config.cert.empty() != config.key.empty()) return refuse(source, "cert and key: expected both or neither");
  const std::tuple<const char*, const std::string&, bool> files[] = {{"ca", config.ca, false},
                                                                     {"cert", config.cert, false},
                                                                     {"key", config.key, true},
                                                                     {"password_file", config.password_file, true}};
  for (const auto& [name, path, secret] : files) {
    if (path.empty()) continue;
    if (const Status bad = check_file(path, secret); !bad.ok())
      return refuse(source, std::string(name) + ": " + bad.message);
  }
  return {};
}

}  // namespace holdfast::agent
