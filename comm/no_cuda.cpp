// Replaces the groups of GPUs and the transport between GPUs of one host in a build without CUDA.
#include "comm/cuda/cuda_block_coder.hpp"
#include "comm/cuda/cuda_group.hpp"
#include "comm/cuda/ipc_transport.hpp"
#include "core/error.hpp"

namespace pipetrain {

std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>&) {
  throw Error(ErrorKind::unavailable,
              "groups of GPUs cannot be made: this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}

std::unique_ptr<BlockCoder> make_cuda_block_coder(Device&, BlockCode) {
  throw Error(ErrorKind::unavailable,
              "GPUs cannot code blocks of numbers: this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}

bool has_ipc() noexcept { return false; }

std::unique_ptr<Transport> make_ipc_transport(ControlPlane&, const Mesh&) {
  throw Error(ErrorKind::unavailable,
              "GPUs of different processes cannot be joined: this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}

}  // namespace pipetrain
