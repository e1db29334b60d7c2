// The descriptors that hold a lock while any process has them open, and how the wrapper passes them to the command.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cli/descriptor.h"
#include "holdfast.h"

namespace holdfast::cli {

struct Grant {
  holdfast_lease lease{};
  double time = 0;  // holdfast_now()
  bool in_cluster = false;
};

/// The descriptors of one hold. The first proves that the holder is alive, the second that its dictionary is in use.
/// Both are needed, because a process that does not find the dictionary in use creates a new one without holders. The
/// command inherits these two. The third proves that the holder is alive to programs of other versions, and to
/// processes that can no longer open files of the world. Only processes of this program have the third, because it
/// gives access to the world.
class Hold {
 public:
  /// Gets the descriptors from holdfast_hold_with_keeper and holdfast_use_over_exec.
  void prove_life(const std::array<int, 2>& fds);
  void use_dictionary(const std::array<int, 2>& fds);

  /// Returns all descriptors; -1 for a missing one.
  std::array<int, 3> descriptors() const { return {life_.get(), keeper_.get(), use_.get()}; }
  /// The descriptor of the process table.
  int keeper() const { return keeper_.get(); }
  /// Lets the program that this process becomes inherit the two descriptors for the command.
  void inherit() const;
  /// Ends the hold, in every process that has the descriptors open.
  void end();
  /// Closes the descriptors in this process.
  void close() { *this = Hold(); }

 private:
  static Descriptor out_of_the_way(int fd);

  Descriptor life_;
  Descriptor keeper_;
  Descriptor use_;
};

/// The orders of the wrapper to its child: to take the flock(2) of the file and to answer with an error number, or to
/// become the command with a fencing token; 0: none.
inline constexpr std::uint64_t kTakeFile = ~std::uint64_t{0};

/// Sends an order, with the descriptors that a command inherits. Returns false if that failed, although the child has
/// not ended; see errno.
bool send_order(int channel, std::uint64_t order, const Hold& hold);
/// Waits for an order, and adds the descriptors to `hold`. Returns nothing if the sender has ended.
std::optional<std::uint64_t> receive_order(int channel, Hold& hold);

}  // namespace holdfast::cli
