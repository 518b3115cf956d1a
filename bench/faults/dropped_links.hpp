// Shuts down the connections of another process, as if its network were gone.
#pragma once

#include <sys/types.h>

namespace pipetrain::bench {

// Shuts down all connected TCP sockets of this process, which must be a descendant of this one. Returns their number.
int drop_links(pid_t process);

}  // namespace pipetrain::bench
