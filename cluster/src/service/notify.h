// Notifies systemd about the state of this service, with a datagram to the socket in $NOTIFY_SOCKET (sd_notify(3)).
#pragma once

#include <string>

namespace holdfast::agent {

/// Sends a line such as "READY=1". Does nothing if $NOTIFY_SOCKET is not set.
void notify_manager(const std::string& line);

}  // namespace holdfast::agent
