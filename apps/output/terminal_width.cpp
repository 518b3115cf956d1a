#include "apps/output/terminal_width.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace pipetrain {

int terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 80;
}

}  // namespace pipetrain
