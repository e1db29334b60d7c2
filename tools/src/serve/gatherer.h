// Gathers documents in a separate process, so that the server itself never reads a world. Neither the contents of a
// world nor a silent agent can block requests. Moreover, no handle of a removed dictionary stays open, and the server
// notices when a world has been created again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "inspect/descriptor.h"
#include "serve/documents.h"

namespace holdfast::serve {

/// Seconds that documents are kept.
inline constexpr double kKeep = 1;
/// If gathering is slow, documents are kept up to this many seconds, so that alerts are not delayed further.
inline constexpr double kKeepMost = 300;

/// Returns how long to keep documents that took `took` seconds of processor time, if gathering may use `part` of a
/// processor.
double seconds_kept(double took, double part);

/// A text that connections share while they send it.
using Text = std::shared_ptr<const std::string>;
/// Documents in use. Each document is freed when the last connection has sent it.
using Texts = std::map<std::string, Text>;

class Gatherer {
 public:
  using Gather = std::function<Documents()>;
  /// `seconds`: the time limit of the process. Gathering uses at most `part` of one core on average.
  Gatherer(Gather gather, double seconds, double part) : gather_(std::move(gather)), timeout_(seconds), part_(part) {}

  /// Returns the documents if they are recent enough. Otherwise returns null and starts a process. Documents are recent
  /// enough for a second, or for up to five minutes if gathering took long.
  std::shared_ptr<const Texts> documents();

  /// Returns the seconds of processor time of the last process.
  double took() const noexcept { return took_; }

  /// Returns a descriptor that is readable when read() has something to read; -1 if no process runs.
  int descriptor() const noexcept { return pipe_.get(); }
  /// Reads the bytes that have arrived. Returns true when all have arrived. After that, answer with latest(), however
  /// old it is.
  bool read();
  std::shared_ptr<const Texts> latest() const noexcept { return latest_; }
  /// Returns when the process must have ended; 0 if there is no process.
  double deadline() const noexcept { return child_ != 0 ? deadline_ : 0; }
  /// Ends the process. latest() then contains an error.
  void give_up();

 private:
  void start();
  void take_whole();
  void finish();

  Gather gather_;
  double timeout_;
  double part_;
  std::shared_ptr<const Texts> latest_;
  double fresh_until_ = 0;
  double took_ = 0;
  pid_t child_ = 0;
  double deadline_ = 0;
  inspect::Descriptor pipe_;
  std::string received_;  // the received part of a document
  Texts coming_;          // the documents that are complete
};

}  // namespace holdfast::serve
