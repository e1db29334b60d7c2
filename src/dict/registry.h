// The registry finds the dictionaries of a world (runtime directory) by name, and owns the handles of the dictionaries
// that this process has open. It keeps one handle for each name until the process exits.
//
// Thread safety: any thread may make any call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dict/dictionary.h"
#include "platform/platform.h"

namespace holdfast {

/// Returns the names in alphabetical order, without opening any dictionary. The result may or may not contain a
/// dictionary that is made or removed in the meantime.
Expected<std::vector<std::string>> dictionary_names(World& world);

class Registry {
 public:
  /// Returns the only registry, which is never destroyed, because threads may be inside calls while the process runs
  /// its exit handlers.
  static Registry& get();

  /// Opens the dictionary, or creates it if there is none. Returns mismatch if a dictionary with another size, mutex or
  /// cluster exists, or if $HOLDFAST_CLUSTER names another cluster. If `options` does not name a cluster, uses the
  /// declared cluster.
  Expected<Dictionary*> open(const std::string& name, DictionaryOptions options);
  /// Returns a dictionary that this process has open, that exists in the world, or that is declared in $HOLDFAST_DICTS.
  /// Returns not_found if there is none, and mismatch if the dictionary does not belong to the cluster that
  /// $HOLDFAST_CLUSTER names.
  Expected<Dictionary*> attach(const std::string& name);
  Status remove(const std::string& name);

 private:
  Registry() = default;
  Expected<Dictionary*> open_locked(const std::string& name, const DictionaryOptions& options);
  Status choose_size(const std::string& name, DictionaryOptions& options);
  /// Returns the size of the existing dictionary, or 0 if there is none.
  Expected<std::uint64_t> present_size(const std::string& name);

  platform::LongMutex mutex_;  // guards dictionaries_, which changes only inside a ForkGuard
  std::map<std::string, std::unique_ptr<Dictionary>> dictionaries_;
};

}  // namespace holdfast
