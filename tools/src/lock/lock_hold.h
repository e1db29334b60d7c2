// The messages from the child of `holdfast lock` to its parent: the grant, and the descriptors that hold it while any
// process has them open.
#pragma once

#include <array>

#include "cli/descriptor.h"
#include "holdfast.h"

namespace holdfast::cli {

struct Grant {
  holdfast_lease lease{};
  double time = 0;  // holdfast_now()
  bool in_cluster = false;
};

/// The first descriptor proves that the holder is alive, the second that its dictionary is in use. Both are needed:
/// processes that do not find the dictionary in use create a new one, with no holders. The command inherits these two.
/// The third proves the holder's life to programs of other versions, and to processes that can no longer open files of
/// the world. It stays in processes of this program, because it gives access to the world.
class Hold {
 public:
  /// Takes them from holdfast_hold_with_keeper and holdfast_use_over_exec.
  void prove_life(const std::array<int, 2>& fds);
  void use_dictionary(const std::array<int, 2>& fds);

  /// -1 for a missing one.
  std::array<int, 3> descriptors() const { return {life_.get(), keeper_.get(), use_.get()}; }
  /// The descriptor of the process table.
  int keeper() const { return keeper_.get(); }
  /// Lets the program that this process becomes inherit its descriptors.
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

/// A message of the child. waits: the lock is held by others. given_back: it does not hold now, and the command has not
/// started. ended: no more messages; with a hold, the command has started.
struct Word {
  enum class Kind { none, waits, held, given_back, ended };
  Kind kind = Kind::none;
  Grant grant{};
  Hold hold{};
};

/// Sends to a parent that may be gone, and ignores that.
void send_hold(int channel, const Grant& grant, const Hold& hold);
void send_given_back(int channel);
void send_waits(int channel);
/// Returns without waiting.
Word receive_word(int channel);

}  // namespace holdfast::cli
