// What the child of `holdfast lock` tells its parent: the grant, and the descriptors by which all that have them hold.
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

/// The proof that the holder lives, and what tells others that its dictionary is in use. Both are needed: processes
/// that do not find the dictionary in use make a new one, with nobody in it. The command inherits these two. The third
/// proves the life once more, to programs of other versions and to processes that cannot open files of the world any
/// more; it is for processes of this program only, as it is a way into the world.
class Hold {
 public:
  /// Takes them from holdfast_hold_with_keeper, and from holdfast_use_over_exec.
  void prove_life(const std::array<int, 2>& fds);
  void use_dictionary(const std::array<int, 2>& fds);

  /// -1 for what there is not.
  std::array<int, 3> descriptors() const { return {life_.get(), keeper_.get(), use_.get()}; }
  /// Of the table of processes.
  int keeper() const { return keeper_.get(); }
  /// What this process becomes has what is meant for it.
  void inherit() const;
  /// Nobody holds by them any more, wherever else they are open.
  void end();
  /// This process does not hold by them any more.
  void close() { *this = Hold(); }

 private:
  static Descriptor out_of_the_way(int fd);

  Descriptor life_;
  Descriptor keeper_;
  Descriptor use_;
};

/// What comes from the child. given_back: it does not hold now, and the command has not begun. ended: nothing more
/// comes; with a hold, the command has begun.
struct Word {
  enum class Kind { none, held, given_back, ended };
  Kind kind = Kind::none;
  Grant grant{};
  Hold hold{};
};

/// To a parent that may be gone: then it has no use of it.
void send_hold(int channel, const Grant& grant, const Hold& hold);
void send_given_back(int channel);
/// Does not wait.
Word receive_word(int channel);

}  // namespace holdfast::cli
