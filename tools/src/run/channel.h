// The channel from the master to one worker, which is a socket pair with records of fixed size.
//
// Each record is a command. End of file means that the master is gone, for whatever reason, because only the master has
// the other descriptor open.
#pragma once

#include <cstdint>

#include "cli/descriptor.h"

namespace holdfast::cli {

enum class Command : std::uint32_t {
  quit = 1,  // exit when the current work is done
};

struct ChannelPair {
  Descriptor master;
  Descriptor worker;
};

/// Throws std::system_error.
ChannelPair make_channel();

/// Sends the command. Ignores failure, which means that the worker is gone.
void send_command(const Descriptor& master_end, Command command) noexcept;

/// Lets the script ask whether this worker should exit.
class ExitRequest {
 public:
  /// Returns whether Command::quit has arrived.
  bool ask() noexcept;
  /// Call this when the script first asks. From then on, Command::quit interrupts the main thread's sleeps until the
  /// script asks again.
  void expect_question() noexcept;
};

/// Starts the thread that reads the channel as long as the process lives. The thread blocks every signal and does not
/// use the script's Lua state. When the master is gone, the thread ends the process immediately. Call this function
/// once, from the main thread. Throws std::system_error.
ExitRequest listen_to_master(Descriptor worker_end);

}  // namespace holdfast::cli
