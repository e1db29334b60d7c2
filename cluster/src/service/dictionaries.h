// The dictionaries of one cluster in this world (runtime directory). Finds existing dictionaries, and new ones as they
// are created.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "dict/dictionary.h"
#include "platform/platform.h"

namespace holdfast::agent {

class Dictionaries {
 public:
  Dictionaries(World& world, std::string cluster);

  /// Returns a descriptor that is readable when the directory has changed and refresh() must be called. Returns -1 if
  /// the kernel does not report changes. In this case, check_again() finds them.
  int descriptor() const noexcept { return notice_.get(); }
  /// Returns why the kernel does not report changes, or an empty string if it reports them.
  const std::string& trouble() const noexcept { return trouble_; }
  /// Opens new dictionaries, and forgets removed ones.
  void refresh();
  /// Lets refresh() retry dictionaries that could not be opened. Call this once a second. The intervals between retries
  /// grow, because a process that is stopped while it opens or creates a dictionary makes other processes wait.
  void check_again() noexcept;

  /// Returns the dictionaries, indexed by name, without dictionaries that are known to be removed.
  const std::map<std::string, Dictionary*>& all() const noexcept { return all_; }
  /// Returns false if there may be further dictionaries that cannot be opened now.
  bool complete() const noexcept { return !incomplete_; }
  /// Returns the dictionary with this name, or null if there is none.
  Dictionary* find(const std::string& name) const;

 private:
  enum class Kind { ours, other, unknown };
  Kind kind_of(const std::string& file) const;
  /// Opens a dictionary. Returns null if it cannot be opened, or does not belong to the cluster after all.
  Dictionary* attach(const std::string& name) const;
  void watch();

  World& world_;
  std::string cluster_;
  platform::FileDescriptor notice_;
  std::string trouble_;
  bool changed_ = true;
  bool incomplete_ = false;
  int calls_ = 0;  // calls to check_again() since a dictionary could not be opened
  std::map<std::string, Dictionary*> all_;
  std::set<std::pair<std::string, ino_t>> others_;  // files of other dictionaries
};

}  // namespace holdfast::agent
