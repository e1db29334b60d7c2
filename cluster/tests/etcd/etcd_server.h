// Runs etcd from Debian's package, on loopback and with its own folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/store.h"
#include "etcd/http.h"
#include "etcd/loop.h"
#include "etcd/proxy.h"
#include "etcd/slow_disk.h"
#include "support/process.h"

namespace holdfast::test {

/// Certificates that openssl creates: ca.pem, NAME.pem and NAME.key.
class Certificates {
 public:
  Certificates();
  /// Creates a certificate for 127.0.0.1, with a subject such as "/O=agent". If the number of days is negative, the
  /// certificate has expired.
  void make(const std::string& name, const std::string& subject, int days = 2);
  std::string path(const std::string& file) const { return directory_ / file; }
  /// Returns settings with the certificate `name`, or without a certificate if `name` is empty.
  etcd::Tls tls(const std::string& name = "") const;

 private:
  void run(const std::string& command) const;

  ScratchDirectory directory_;
};

class EtcdServer {
 public:
  /// The ports of one of several members, and the addresses of all members.
  struct Member {
    std::string name;
    int port = 0;
    int peer_port = 0;
    int advertised_port = 0;  // at which the other members reach it
    std::string initial_cluster;
    bool has_slow_disk = false;
  };

  /// Starts a server, and waits until it answers requests. If `certificates` are given, the server uses TLS with
  /// server.pem.
  explicit EtcdServer(std::vector<std::string> options = {}, const Certificates* certificates = nullptr);
  /// Creates a member, but does not start its server.
  explicit EtcdServer(Member member);

  int port() const { return self_.port; }
  std::string url() const { return scheme_ + "://127.0.0.1:" + std::to_string(self_.port); }
  void kill() { child_.reset(); }
  /// Copies the data of the killed server, or restores the copy.
  void save() const;
  void restore() const;
  /// begin() starts the server again, with its data and on the same ports. start() also waits until the server answers
  /// requests.
  void begin();
  void start();
  void await_service();
  /// Sends SIGSTOP or SIGCONT.
  void stop() const { child_->stop(); }
  void go_on() const;

  /// Returns the disk of a member that has a slow disk.
  SlowDisk& disk() { return disk_; }

  /// Calls etcd directly, and not through the store. Returns the answer, whatever its status is.
  std::string post(const std::string& path, const std::string& body);
  agent::Revision revision();
  /// Returns the number of keys with the prefix.
  std::size_t count(const std::string& prefix);
  /// Returns all events of keys with the prefix since the first revision, as a watch reports them.
  std::vector<agent::Record> history(const std::string& prefix);
  /// Makes all later calls as this user.
  void be(const std::string& user, const std::string& password);
  /// The ids of this member and of the leader that it knows, or 0 if it knows none.
  struct Status {
    std::uint64_t member = 0;
    std::uint64_t leader = 0;
  };
  Status status();
  /// Adds the users root and hf, and enables authentication. hf may use the keys below "hf/".
  void enable_authentication();

 private:
  std::string data() const { return directory_ / "data"; }
  std::string copy() const { return directory_ / "copy"; }
  bool serves();
  void run(Channel& channel) const;
  /// Collects the events of keys with the prefix, up to the event of the key `end`. Returns "", or why the watch ended
  /// earlier.
  std::string watch_until(const std::string& end, const std::string& prefix, std::vector<agent::Record>& events);

  ScratchDirectory directory_;
  SlowDisk disk_;
  const std::vector<std::string> options_;
  const Certificates* const certificates_;
  const std::string scheme_;
  Member self_;
  std::string token_;
  etcd::Loop loop_;
  etcd::Http http_;
  std::unique_ptr<Child> child_;
};

/// Returns the URLs, separated by commas, in the form that an agent accepts.
std::string joined(const std::vector<std::string>& urls);

/// Three running members, which reach each other through proxies.
class EtcdCluster {
 public:
  enum class Disks { fast, slow };

  explicit EtcdCluster(Disks disks = Disks::fast);

  EtcdServer& operator[](std::size_t index) { return *members_[index]; }
  std::vector<std::string> urls() const;
  /// Waits until all members that answer know a leader. Returns the leader's index.
  std::size_t leader();
  /// Cuts this member off from the other members in both directions. Clients still reach it.
  void isolate(std::size_t member);
  void rejoin();

 private:
  void start();

  const Disks disks_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
  std::vector<std::unique_ptr<EtcdServer>> members_;
};

/// One machine's proxies, one in front of each member.
class MemberProxies {
 public:
  explicit MemberProxies(EtcdCluster& cluster);

  Proxy& operator[](std::size_t member) { return *proxies_[member]; }
  std::vector<std::string> urls() const;

 private:
  std::vector<std::unique_ptr<Proxy>> proxies_;
};

}  // namespace holdfast::test
