// Gathers documents in a process of its own: this one never looks at a world. So what a world holds, or a silent agent,
// keeps no request from being answered; no handle of a dictionary that was removed stays; and a world that was made
// anew is seen.
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
/// However much a look takes: an alert waits no longer for it.
inline constexpr double kKeepMost = 300;

/// How long documents are kept that took so many seconds of a processor, if `part` of one may go into them.
double seconds_kept(double took, double part);

/// A text that connections share while they send it.
using Text = std::shared_ptr<const std::string>;
/// Documents as they are kept: each goes when the last connection has sent it.
using Texts = std::map<std::string, Text>;

class Gatherer {
 public:
  using Gather = std::function<Documents()>;
  /// `seconds`: a process that takes longer is ended. `part`: of the processor's time of one core, so much at most goes
  /// into gathering.
  Gatherer(Gather gather, double seconds, double part) : gather_(std::move(gather)), patience_(seconds), part_(part) {}

  /// The documents, if they are new enough; else null, and a process is at work. They are kept for a second,
  /// or for up to five minutes if it took much to gather them.
  std::shared_ptr<const Texts> documents();

  /// Readable when there is something to read(); -1: nothing is gathered.
  int descriptor() const noexcept { return pipe_.get(); }
  /// Takes what has come. True if all has: then answer with latest(), however old it is.
  bool read();
  std::shared_ptr<const Texts> latest() const noexcept { return latest_; }
  /// When the process is given up; 0: there is none.
  double deadline() const noexcept { return child_ != 0 ? deadline_ : 0; }
  /// Ends it. latest() has an error then.
  void give_up();

 private:
  void start();
  void take_whole();
  void finish();

  Gather gather_;
  double patience_;
  double part_;
  std::shared_ptr<const Texts> latest_;
  double fresh_until_ = 0;
  pid_t child_ = 0;
  double deadline_ = 0;
  inspect::Descriptor pipe_;
  std::string received_;  // of the document that is about to come
  Texts coming_;          // those that are whole
};

}  // namespace holdfast::serve
