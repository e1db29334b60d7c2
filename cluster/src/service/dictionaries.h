// The dictionaries of one cluster in this world (runtime directory): existing ones, and new ones as they are created.
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

  /// Readable when the directory has changed: call refresh(). -1: the kernel does not notify; look_again() finds
  /// changes.
  int descriptor() const noexcept { return notice_.get(); }
  /// Returns why the kernel does not notify; empty if it does.
  const std::string& trouble() const noexcept { return trouble_; }
  /// Opens new dictionaries, and forgets removed ones.
  void refresh();
  /// Lets refresh() retry dictionaries that could not be opened. Call it once a second. It retries less and less often,
  /// because a process that is stopped while it opens or creates one keeps others waiting.
  void look_again() noexcept;

  /// By name, without those that are known to be removed.
  const std::map<std::string, Dictionary*>& all() const noexcept { return all_; }
  /// Returns false if there may be others that cannot be opened just now.
  bool complete() const noexcept { return !incomplete_; }
  /// Returns null if there is none with that name.
  Dictionary* find(const std::string& name) const;

 private:
  enum class Kind { ours, other, unknown };
  Kind kind_of(const std::string& file) const;
  /// Returns null if it cannot be opened, or does not belong to the cluster after all.
  Dictionary* attach(const std::string& name) const;
  void watch();

  World& world_;
  std::string cluster_;
  platform::FileDescriptor notice_;
  std::string trouble_;
  bool changed_ = true;
  bool incomplete_ = false;
  int calls_ = 0;  // of look_again(), since one could not be opened
  std::map<std::string, Dictionary*> all_;
  std::set<std::pair<std::string, ino_t>> others_;  // files that were read, and do not matter
};

}  // namespace holdfast::agent
