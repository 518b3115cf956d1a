#include "core/wire.hpp"

#include <string>

#include "core/error.hpp"

namespace pipetrain {

void WireReader::refuse(const char* what) {
  throw Error(ErrorKind::peer_lost, std::string("a message from another process holds ") + what);
}

}  // namespace pipetrain
