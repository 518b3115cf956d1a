// Replaces the transport over NCCL in a build without it.
#include "comm/nccl/nccl_transport.hpp"
#include "core/error.hpp"

namespace pipetrain {

bool has_nccl() noexcept { return false; }

std::size_t nccl_group_memory(int) { return 0; }

std::string describe_nccl() { return "none: this build has no NCCL"; }

std::unique_ptr<Transport> make_nccl_transport(ControlPlane&, const Mesh&, NcclWay) {
  throw Error(ErrorKind::unavailable,
              "GPUs of different hosts cannot be joined: this build has no NCCL; install libnccl-dev (or set NCCL_ROOT) and "
              "configure it with -DPIPETRAIN_CUDA=ON");
}

}  // namespace pipetrain
