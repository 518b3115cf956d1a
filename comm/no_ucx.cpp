// Replaces the transport over UCX in a build without it.
#include "comm/ucx/ucx_process.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/error.hpp"

namespace pipetrain {

bool has_ucx() noexcept { return false; }

std::unique_ptr<Transport> make_ucx_transport(ControlPlane&, const Mesh&) {
  throw Error(ErrorKind::unavailable,
              "CPU ranks of different processes cannot reach each other: this build has no UCX; install libucx-dev (or set "
              "UCX_ROOT) and configure it again");
}

std::size_t ucx_group_memory(int) { return 0; }

void print_no_ucx_stacks() noexcept {}

void hold_ucx_openings() noexcept {}

void remove_ucx_folder() noexcept {}

void remove_ucx_leftovers() noexcept {}

std::string describe_ucx() { return "none: this build has no UCX"; }

}  // namespace pipetrain
