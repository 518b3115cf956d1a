// Replaces the CUDA device in a build without CUDA.
#include "core/device.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/host_gate.hpp"
#include "core/native_stream.hpp"

namespace pipetrain {

std::unique_ptr<Device> make_cuda_device(int index) {
  throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(index) +
                                          " cannot be used: this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}

int cuda_device_count() { return 0; }

std::string cuda_device_name(int) { return {}; }

bool cuda_multiplies_fp8(int) { return false; }
bool cuda_is_hopper(int) { return false; }

std::unique_ptr<HostGate> make_cuda_host_gate(Device& device) {
  throw Error(ErrorKind::unavailable,
              to_string(device.id()) + ": this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}
void record_on_native(Event&, std::uintptr_t, int device) { make_cuda_device(device); }
void let_native_wait(const Event&, std::uintptr_t, int device) { make_cuda_device(device); }

}  // namespace pipetrain
