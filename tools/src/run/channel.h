// The channel from the master to one worker: a socket pair with records of fixed size.
//
// A command asks for something. The end of the channel tells that the master is gone, in whatever way, because only the
// master holds the other descriptor.
#pragma once

#include <cstdint>

#include "cli/descriptor.h"

namespace holdfast::cli {

enum class Command : std::uint32_t {
  quit = 1,  // end when the work in hand is done
};

struct ChannelPair {
  Descriptor master;
  Descriptor worker;
};

/// Throws std::system_error.
ChannelPair make_channel();

/// A failure is ignored: the worker is gone.
void send_command(const Descriptor& master_end, Command command) noexcept;

/// The question whether this worker is to end, as the script asks it.
class ExitRequest {
 public:
  /// Whether Command::quit came.
  bool ask() noexcept;
  /// Call it when the script begins to ask: from then on Command::quit cuts sleeps of the main thread short until the
  /// script has asked again.
  void expect_question() noexcept;
};

/// Starts the thread that reads the channel as long as the process lives. It blocks every signal and touches nothing of
/// the script. When the master is gone it ends the process at once. To be called once, by the main thread. Throws
/// std::system_error.
ExitRequest listen_to_master(Descriptor worker_end);

}  // namespace holdfast::cli
