// Notifies systemd about this service (sd_notify(3)): sends a datagram to the socket in $NOTIFY_SOCKET.
#pragma once

#include <string>

namespace holdfast::agent {

/// Sends a line of sd_notify(3), such as "READY=1". Does nothing if nobody listens.
void notify_manager(const std::string& line);

}  // namespace holdfast::agent
