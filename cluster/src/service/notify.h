// What systemd is told about this service (sd_notify(3)): a datagram to the socket that $NOTIFY_SOCKET names.
#pragma once

#include <string>

namespace holdfast::agent {

/// Sends a line of sd_notify(3), as "READY=1". Does nothing where nobody listens.
void notify_manager(const std::string& line);

}  // namespace holdfast::agent
