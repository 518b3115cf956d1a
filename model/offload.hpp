// What lives in host memory, or on a disk, between uses instead of in the memory of the device.
// Sources: Ren et al. 2021, "ZeRO-Offload", arXiv 2101.06840; Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857.
#pragma once

#include <filesystem>

namespace pipetrain {

struct Offload {
  bool optimizer = false;             // its states, and master weights that operations do not read
  std::filesystem::path folder = {};  // of files for it, on a disk; empty: host memory

  bool any() const { return optimizer; }
  bool to_disk() const { return any() && !folder.empty(); }
  bool operator==(const Offload&) const = default;
};

}  // namespace pipetrain
