#include "comm/ucx_transport.hpp"

#include "core/error.hpp"

namespace pipetrain {

bool has_ucx() noexcept { return false; }

std::unique_ptr<Transport> make_ucx_transport(ControlPlane&, const Mesh&) {
  throw Error(ErrorKind::unavailable, "the transport over UCX is not built yet");
}

std::string describe_ucx() { return "none"; }

}  // namespace pipetrain
