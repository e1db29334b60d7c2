// The descriptors that hold a lock as long as any process has them open, and the channel on which the wrapper passes
// them to the command.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cli/descriptor.h"
#include "holdfast.h"

namespace holdfast::cli {

struct Grant {
  holdfast_lease lease{};
  double time = 0;  // in holdfast_now() time
  bool in_cluster = false;
};

/// The descriptors of one hold. The first descriptor proves that the holder is alive, and the second that the holder's
/// dictionary is in use. Both are needed, because a process that finds the dictionary unused creates a new dictionary
/// without holders. The command inherits these two descriptors. The third descriptor proves that the holder is alive to
/// programs of other versions, and to processes that can no longer open files of the world. Only processes of this
/// program have the third descriptor, because it gives access to the world.
class Hold {
 public:
  /// Gets the descriptors from holdfast_hold_with_keeper and holdfast_use_over_exec.
  void prove_life(const std::array<int, 2>& fds);
  void use_dictionary(const std::array<int, 2>& fds);

  /// Returns all descriptors; a missing descriptor is -1.
  std::array<int, 3> descriptors() const { return {life_.get(), keeper_.get(), use_.get()}; }
  /// Returns the descriptor of the process table.
  int keeper() const { return keeper_.get(); }
  /// Makes the first two descriptors inheritable, so that the program that this process executes gets them.
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

/// The wrapper's orders to its child. kTakeFile means: take the flock(2) of the file, and answer with an error number.
/// Any other order means: become the command with this fencing token, or without a token if the order is 0.
inline constexpr std::uint64_t kTakeFile = ~std::uint64_t{0};

/// Sends an order, with the descriptors that a command inherits. Returns false, and sets errno, if this failed although
/// the child has not ended.
bool send_order(int channel, std::uint64_t order, const Hold& hold);
/// Waits for an order, and adds the descriptors to `hold`. Returns nothing if the sender has ended.
std::optional<std::uint64_t> receive_order(int channel, Hold& hold);

}  // namespace holdfast::cli
