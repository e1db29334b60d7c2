#include "cli/world_options.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "cli/message.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

/// Time limit for a scan of all processes of the machine.
constexpr double kScanSeconds = 5;

}  // namespace

WorldOptions::WorldOptions(Arguments& arguments, Prints prints) {
  arguments.add_value("--dir", "PATH", "Use this runtime directory; default: $HOLDFAST_DIR, else the user's own",
                      [this](const std::string& path) {
                        directory_ = path;
                        return path.empty() ? std::string("bad directory \"\": expected a path") : std::string();
                      });
  arguments.add_value("--user", "NAME", "Switch to this user first, to use its runtime directory; needs root",
                      [this](const std::string& name) {
                        user_ = name;
                        return std::string();
                      });
  if (prints == Prints::nothing) return;
  arguments.add_flag("--json", json_, "Print JSON");
  arguments.add_optional("--color", "WHEN", "always",
                         "Print columns in colour: always (without WHEN), auto (default), never",
                         [this](const std::string& when) { return read_color(when, color_); });
  if (prints == Prints::columns) arguments.add_flag("--header", header_, "Print columns with titles, as on a terminal");
}

std::string WorldOptions::become() {
  return become_user(*user_, [this](uid_t uid) {
    if (wants_openers_)
      openers_ = inspect::Openers::read(inspect::directory_to_be(uid), inspect::all_pids(), kScanSeconds);
  });
}

inspect::Openers WorldOptions::openers(const std::string& directory, const std::vector<std::uint32_t>& pids,
                                       double seconds) const {
  if (!openers_) return inspect::Openers::read(directory, pids, seconds);
  inspect::Openers openers = *openers_;
  openers.limit_to(pids);
  return openers;
}

void WorldOptions::apply() {
  if (!directory_.empty()) ::setenv("HOLDFAST_DIR", directory_.c_str(), 1);
  if (const std::string wrong = user_ ? become() : ""; !wrong.empty()) fail("{}", wrong);
  // Other processes may truncate files while this process reads them.
  static_cast<void>(holdfast_guard_sigbus());
}

std::string WorldOptions::observe() {
  apply();
  return value_or_fail(inspect::observe());
}

std::optional<std::string> WorldOptions::observe_if_used() {
  apply();
  auto observed = inspect::observe();
  const bool is_unused = !observed && inspect::is_unused_yet(observed.status()) && !names_missing_directory();
  if (!is_unused) return value_or_fail(std::move(observed));
  if (!json_) say("{} ({}); {}", inspect::kUnusedYet, inspect::directory_to_be(), inspect::kOtherWays);
  return std::nullopt;
}

bool WorldOptions::names_missing_directory() const {
  return !directory_.empty() && ::access(directory_.c_str(), F_OK) != 0;
}

std::string WorldOptions::enter(inspect::IfMissing if_missing) {
  apply();
  return value_or_fail(inspect::enter(if_missing));
}

}  // namespace holdfast::cli
