// The dictionaries of one cluster in this world: found in the runtime directory, and as they are made.
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

  /// Readable when the directory has changed: call refresh(). -1: the kernel does not tell, so a change is found by
  /// look_again().
  int descriptor() const noexcept { return notice_.get(); }
  /// Why it does not; empty if it does.
  const std::string& trouble() const noexcept { return trouble_; }
  /// Opens those that were made, and forgets those that were removed.
  void refresh();
  /// Lets refresh() try again to open those that could not be opened. Call it once a second: that becomes rarer, as a
  /// process that is stopped while it opens or makes one keeps others waiting.
  void look_again() noexcept;

  /// By name. None of them is removed, as far as is known.
  const std::map<std::string, Dictionary*>& all() const noexcept { return all_; }
  /// False: there may be others, which cannot be opened just now.
  bool complete() const noexcept { return !incomplete_; }
  /// Null: there is none of that name.
  Dictionary* find(const std::string& name) const;

 private:
  enum class Kind { ours, other, unknown };
  Kind kind_of(const std::string& file) const;
  /// Null: it cannot be opened, or is not of the cluster after all.
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
  std::set<std::pair<std::string, ino_t>> others_;  // files that were looked at, and are of no interest
};

}  // namespace holdfast::agent
