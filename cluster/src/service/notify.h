// Notifies systemd about this service by a datagram to the socket in $NOTIFY_SOCKET (sd_notify(3)).
#pragma once

#include <string>

namespace holdfast::agent {

/// Sends a line such as "READY=1". Does nothing if nobody listens.
void notify_manager(const std::string& line);

}  // namespace holdfast::agent
