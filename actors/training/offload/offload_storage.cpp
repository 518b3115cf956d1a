#include "actors/training/offload/offload_storage.hpp"

namespace pipetrain {

void add_offloaded(const StorageBytes& bytes, const Offload& offload, const Device* device, MemoryUse& use) {
  if (offload.folder.empty()) {
    use.host += bytes.all;
    return;
  }
  use.disk += bytes.all;
  const bool on_gpu = device != nullptr && device->id().kind == DeviceKind::cuda;
  if (on_gpu && bytes.all > 0) use.host += staging_bytes(bytes.transfer);
}

}  // namespace pipetrain
