#include "comm/groups.hpp"

#include "comm/cuda/cuda_group.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/error.hpp"

namespace pipetrain {

std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices) {
  std::size_t gpus = 0;
  for (const Device* device : devices) gpus += device->id().kind == DeviceKind::cuda;
  if (gpus == 0) return make_inprocess_groups(static_cast<int>(devices.size()));
  if (gpus == devices.size()) return make_cuda_groups(devices);
  throw Error(ErrorKind::internal, "a group of CPU devices and GPUs together");
}

}  // namespace pipetrain
