// Gathers documents in a separate process, so that the server itself never reads a world. Neither the contents of a
// world nor a silent agent can block requests. Moreover, no handle of a removed dictionary remains open, and the server
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

/// The number of seconds for which documents are usually kept.
inline constexpr double kKeep = 1;
/// The maximum number of seconds for which documents are kept if gathering is slow. A longer time would delay alerts
/// too much.
inline constexpr double kKeepMost = 300;

/// Returns how long to keep documents that took `took` seconds of processor time, if gathering may use the fraction
/// `part` of a processor.
double seconds_kept(double took, double part);

/// A text that connections share while they send it.
using Text = std::shared_ptr<const std::string>;
/// Documents that connections use. Each document is freed when the last connection has sent it.
using Texts = std::map<std::string, Text>;

class Gatherer {
 public:
  using Gather = std::function<Documents()>;
  /// `seconds`: the time limit of the process. On average, gathering uses at most the fraction `part` of one core.
  Gatherer(Gather gather, double seconds, double part) : gather_(std::move(gather)), timeout_(seconds), part_(part) {}

  /// Returns the documents if they are recent enough. Otherwise, returns null and starts a process. Documents are
  /// recent enough for a second, or for up to five minutes if gathering took long.
  std::shared_ptr<const Texts> documents();

  /// Returns the processor time of the last process, in seconds.
  double took() const noexcept { return took_; }

  /// Returns a descriptor that is readable when read() has something to read, or -1 if no process runs.
  int descriptor() const noexcept { return pipe_.get(); }
  /// Reads the bytes that have arrived. Returns true if all bytes have arrived. In this case, answer requests with
  /// latest(), even if it is old.
  bool read();
  std::shared_ptr<const Texts> latest() const noexcept { return latest_; }
  /// Returns when the process must have ended, or 0 if there is no process.
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
