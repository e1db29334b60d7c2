// What all commands have that look at a world or change it: which one, as which user, and how to print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/output.h"
#include "inspect/openers.h"

namespace holdfast::cli {

class WorldOptions {
 public:
  enum class Prints { nothing, something };
  /// Adds --dir and --user, and --json and --color for what prints.
  WorldOptions(Arguments& arguments, Prints prints);

  bool json() const noexcept { return json_; }
  Output output() const { return output_for(color_); }

  /// Becomes that user and chooses that directory; ends the command where that is not possible. Call it before anything
  /// else of the library.
  void apply();
  /// The same, and looks at the world. Returns its directory.
  std::string observe();
  /// The same, and enters it.
  std::string enter();

  /// Root looks at what processes have open before it becomes a user: those that have changed their own user, as the
  /// workers of nginx have, are closed to it afterwards. Call it before.
  void want_openers() noexcept { wants_openers_ = true; }
  /// What was seen then; else looks now, at these processes and for so long.
  inspect::Openers openers(const std::string& directory, const std::vector<std::uint32_t>& pids, double seconds) const;

 private:
  std::string become();

  std::string directory_;
  std::optional<std::string> user_;
  bool json_ = false;
  Color color_ = Color::automatic;
  bool wants_openers_ = false;
  std::optional<inspect::Openers> openers_;
};

}  // namespace holdfast::cli
