// The dictionaries of one cluster in this world (runtime directory). Finds existing ones, and new ones as they are
// created.
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

  /// Returns a descriptor that is readable when the directory has changed: then call refresh(). Returns -1 if the
  /// kernel does not notify; then check_again() finds changes.
  int descriptor() const noexcept { return notice_.get(); }
  /// Returns why the kernel does not notify; empty if it does.
  const std::string& trouble() const noexcept { return trouble_; }
  /// Opens new dictionaries, and forgets removed ones.
  void refresh();
  /// Lets refresh() retry dictionaries that could not be opened. Call it once a second. It retries at growing
  /// intervals, because a process that is stopped while it opens or creates a dictionary keeps others waiting.
  void check_again() noexcept;

  /// Returns the dictionaries by name, without those that are known to be removed.
  const std::map<std::string, Dictionary*>& all() const noexcept { return all_; }
  /// Returns false if there may be others that cannot be opened now.
  bool complete() const noexcept { return !incomplete_; }
  /// Returns null if there is none with this name.
  Dictionary* find(const std::string& name) const;

 private:
  enum class Kind { ours, other, unknown };
  Kind kind_of(const std::string& file) const;
  /// Returns null if the dictionary cannot be opened, or does not belong to the cluster after all.
  Dictionary* attach(const std::string& name) const;
  void watch();

  World& world_;
  std::string cluster_;
  platform::FileDescriptor notice_;
  std::string trouble_;
  bool changed_ = true;
  bool incomplete_ = false;
  int calls_ = 0;  // calls of check_again() since one could not be opened
  std::map<std::string, Dictionary*> all_;
  std::set<std::pair<std::string, ino_t>> others_;  // files that were read and do not matter
};

}  // namespace holdfast::agent
