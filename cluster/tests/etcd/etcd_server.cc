#include "etcd/etcd_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "etcd/fake_server.h"
#include "etcd/json.h"

namespace holdfast::test {

namespace {

constexpr int kCannotRun = 127;

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string peer_url(int port) { return "http://127.0.0.1:" + std::to_string(port); }

EtcdServer::Member new_member(const std::string& name) {
  const int peer_port = free_port();
  return {name, free_port(), peer_port, peer_port, "", false};
}

std::string peer_of(const EtcdServer::Member& member) { return member.name + "=" + peer_url(member.advertised_port); }

/// Returns the number with this name in an answer, or 0 if there is none.
std::uint64_t number_in(const std::string& answer, const std::string& name) {
  const std::size_t at = answer.find(quoted(name) + ":\"");
  return at == std::string::npos ? 0 : std::stoull(answer.substr(at + name.size() + 4));
}

template <class Servers>
std::vector<std::string> urls_of(const Servers& servers) {
  std::vector<std::string> urls;
  for (const auto& server : servers) urls.push_back(server->url());
  return urls;
}

// Calls `start` again if it fails, because a different program may take a port between the check and the start.
void with_free_ports(const std::function<void()>& start) {
  for (int attempt = 1;; ++attempt) {
    try {
      start();
      return;
    } catch (const std::runtime_error&) {
      if (attempt == 3) throw;
    }
  }
}

}  // namespace

Certificates::Certificates() {
  run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=test -days 2");
  std::ofstream(directory_ / "extensions") << "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
}

void Certificates::make(const std::string& name, const std::string& subject, int days) {
  run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout " + name + ".key -out " + name + ".csr -subj " +
      subject);
  run("x509 -req -in " + name + ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions -out " + name +
      ".pem -days " + std::to_string(days));
}

etcd::Tls Certificates::tls(const std::string& name) const {
  if (name.empty()) return {path("ca.pem"), "", ""};
  return {path("ca.pem"), path(name + ".pem"), path(name + ".key")};
}

void Certificates::run(const std::string& command) const {
  const std::string line = "cd " + directory_.path() + " && openssl " + command + " >>log 2>&1";
  if (std::system(line.c_str()) != 0) throw std::runtime_error("openssl " + command + " failed");
}

EtcdServer::EtcdServer(std::vector<std::string> options, const Certificates* certificates)
    : options_(std::move(options)),
      certificates_(certificates),
      scheme_(certificates == nullptr ? "http" : "https"),
      http_(loop_, certificates == nullptr ? etcd::Tls() : certificates->tls("server")) {
  with_free_ports([this] {
    self_ = new_member("default");
    self_.initial_cluster = peer_of(self_);
    start();
  });
}

EtcdServer::EtcdServer(Member member)
    : certificates_(nullptr), scheme_("http"), self_(std::move(member)), http_(loop_, etcd::Tls()) {}

void EtcdServer::start() {
  begin();
  await_service();
}

void EtcdServer::save() const {
  std::filesystem::remove_all(copy());
  std::filesystem::copy(data(), copy(), std::filesystem::copy_options::recursive);
}

void EtcdServer::restore() const {
  std::filesystem::remove_all(data());
  std::filesystem::copy(copy(), data(), std::filesystem::copy_options::recursive);
}

void EtcdServer::begin() {
  child_ = std::make_unique<Child>([this](Channel& channel) {
    run(channel);
    return kCannotRun;
  });
}

void EtcdServer::await_service() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!serves()) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child_->pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
      throw std::runtime_error("etcd ended with " + std::to_string(info.si_status) + " (package etcd-server); see " +
                               directory_.path());
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("etcd does not begin to answer requests");
    ::usleep(20000);
  }
}

void EtcdServer::run(Channel& channel) const {
  std::vector<std::string> words{"etcd",
                                 "--data-dir=" + data(),
                                 "--listen-client-urls=" + url(),
                                 "--advertise-client-urls=" + url(),
                                 "--listen-peer-urls=" + peer_url(self_.peer_port),
                                 "--initial-advertise-peer-urls=" + peer_url(self_.advertised_port),
                                 "--name=" + self_.name,
                                 "--initial-cluster=" + self_.initial_cluster,
                                 "--bcrypt-cost=4"};
  if (certificates_ != nullptr) {
    words.push_back("--cert-file=" + certificates_->path("server.pem"));
    words.push_back("--key-file=" + certificates_->path("server.key"));
  }
  words.insert(words.end(), options_.begin(), options_.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log = ::open((directory_.path() + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(channel.read_fd());
  if (self_.has_slow_disk && !disk_.use()) {
    std::perror("a slow disk");
    return;
  }
  ::execvp(arguments[0], arguments.data());
}

void EtcdServer::go_on() const { child_->signal(SIGCONT); }

// A linearizable read succeeds only with a leader.
bool EtcdServer::serves() {
  const std::string answer = post("/v3/kv/range", R"({"key":"YQ=="})");
  return answer.find("header") != std::string::npos || answer.find("user name is empty") != std::string::npos;
}

std::string EtcdServer::post(const std::string& path, const std::string& body) {
  etcd::Request request;
  request.url = url() + path;
  request.body = body;
  if (!token_.empty()) request.headers.push_back("Authorization: " + token_);
  request.timeout_ms = 20000;
  bool done = false;
  std::string answer;
  const auto transfer = http_.send(std::move(request), [&](const etcd::Response& response) {
    done = true;
    answer = response.ended ? response.body : "";
  });
  while (!done) loop_.turn(100);
  return answer;
}

agent::Revision EtcdServer::revision() {
  return static_cast<agent::Revision>(number_in(post("/v3/kv/range", R"({"key":"YQ=="})"), "revision"));
}

std::size_t EtcdServer::count(const std::string& prefix) {
  const std::string range = R"({"count_only":true,"key":)" + quoted(etcd::to_base64(prefix)) + R"(,"range_end":)" +
                            quoted(etcd::to_base64(etcd::end_of_prefix(prefix))) + "}";
  return static_cast<std::size_t>(number_in(post("/v3/kv/range", range), "count"));
}

std::vector<agent::Record> EtcdServer::history(const std::string& prefix) {
  const std::string end = prefix + "the end";
  std::vector<agent::Record> events;
  std::string said;
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  do {
    post("/v3/kv/put", R"({"key":)" + quoted(etcd::to_base64(end)) + "}");
    events.clear();
    said = watch_until(end, prefix, events);
  } while (!said.empty() && std::chrono::steady_clock::now() < patience);
  post("/v3/kv/deleterange", R"({"key":)" + quoted(etcd::to_base64(end)) + "}");
  if (!said.empty()) throw std::runtime_error("etcd does not return its history: " + said);
  return events;
}

std::string EtcdServer::watch_until(const std::string& end, const std::string& prefix,
                                    std::vector<agent::Record>& events) {
  etcd::Request request;
  request.url = url() + "/v3/watch";
  request.body = R"({"create_request":{"start_revision":"1","key":)" + quoted(etcd::to_base64(prefix)) +
                 R"(,"range_end":)" + quoted(etcd::to_base64(etcd::end_of_prefix(prefix))) + "}}";
  if (!token_.empty()) request.headers.push_back("Authorization: " + token_);
  bool done = false;
  std::string said = "nothing for " + std::to_string(kPatience.count()) + " s";
  const auto transfer = http_.stream(
      std::move(request),
      [&](const std::string& line) {
        const auto parsed = etcd::decode_watch_line(line);
        const bool goes_on = parsed && !parsed->canceled;
        for (std::size_t i = 0; goes_on && i < parsed->events.size() && !done; ++i) {
          events.push_back(parsed->events[i]);
          done = parsed->events[i].key == end;
        }
        said = done ? "" : line;
        done = done || !goes_on;
      },
      [&](const etcd::Response& response) {
        if (!done) said = response.failure + response.body;
        done = true;
      });
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  while (!done && std::chrono::steady_clock::now() < patience) loop_.turn(100);
  return said;
}

void EtcdServer::be(const std::string& user, const std::string& password) {
  token_.clear();
  const std::string answer = post("/v3/auth/authenticate", *etcd::encode_credentials(user, password));
  const auto token = etcd::decode_token(answer);
  if (!token) throw std::runtime_error("no token for " + user + ": " + answer);
  token_ = *token;
}

EtcdServer::Status EtcdServer::status() {
  const std::string answer = post("/v3/maintenance/status", "{}");
  return {number_in(answer, "member_id"), number_in(answer, "leader")};
}

void EtcdServer::enable_authentication() {
  const std::string from = quoted(etcd::to_base64("hf/"));
  const std::string to = quoted(etcd::to_base64("hf0"));
  post("/v3/auth/user/add", R"({"name":"root","password":"top"})");
  post("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
  post("/v3/auth/user/add", R"({"name":"hf","password":"secret"})");
  post("/v3/auth/role/add", R"({"name":"hf"})");
  post("/v3/auth/role/grant",
       R"({"name":"hf","perm":{"permType":"READWRITE","key":)" + from + R"(,"range_end":)" + to + "}}");
  post("/v3/auth/user/grant", R"({"user":"hf","role":"hf"})");
  const std::string answer = post("/v3/auth/enable", "{}");
  if (answer.find("header") == std::string::npos) throw std::runtime_error("auth enable: " + answer);
}

EtcdCluster::EtcdCluster(Disks disks) : disks_(disks) {
  with_free_ports([this] { start(); });
}

void EtcdCluster::start() {
  members_.clear();
  proxies_.clear();
  std::vector<EtcdServer::Member> members;
  std::string all;
  for (const char* name : {"a", "b", "c"}) {
    members.push_back(new_member(name));
    proxies_.push_back(std::make_unique<Proxy>(members.back().peer_port));
    members.back().advertised_port = proxies_.back()->port();
    all += (all.empty() ? "" : ",") + peer_of(members.back());
  }
  for (EtcdServer::Member& member : members) {
    member.initial_cluster = all;
    member.has_slow_disk = disks_ == Disks::slow;
    members_.push_back(std::make_unique<EtcdServer>(member));
    members_.back()->begin();
  }
  for (const auto& member : members_) member->await_service();
}

std::size_t EtcdCluster::leader() {
  std::size_t leader = 0;
  const bool found = eventually([&] {
    std::set<std::uint64_t> leaders;
    std::vector<std::uint64_t> numbers;
    for (const auto& member : members_) {
      const EtcdServer::Status status = member->status();
      numbers.push_back(status.member);
      if (status.member != 0) leaders.insert(status.leader);
    }
    if (leaders.size() != 1 || leaders.contains(0)) return false;
    leader = static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), *leaders.begin()) - numbers.begin());
    return leader < members_.size();
  });
  if (!found) throw std::runtime_error("etcd has no leader");
  return leader;
}

// A member sends its id to the members to which it connects, so a proxy knows whose connection it is.
void EtcdCluster::isolate(std::size_t member) {
  std::ostringstream number;
  number << std::hex << members_[member]->status().member;
  for (std::size_t i = 0; i < proxies_.size(); ++i)
    i == member ? proxies_[i]->hold() : proxies_[i]->hold_member(number.str());
}

void EtcdCluster::rejoin() {
  for (const auto& proxy : proxies_) proxy->pass();
}

std::vector<std::string> EtcdCluster::urls() const { return urls_of(members_); }

MemberProxies::MemberProxies(EtcdCluster& cluster) {
  for (std::size_t i = 0; i < cluster.urls().size(); ++i)
    proxies_.push_back(std::make_unique<Proxy>(cluster[i].port()));
}

std::vector<std::string> MemberProxies::urls() const { return urls_of(proxies_); }

std::string joined(const std::vector<std::string>& urls) {
  std::string text;
  for (const std::string& url : urls) text += (text.empty() ? "" : ",") + url;
  return text;
}

}  // namespace holdfast::test
