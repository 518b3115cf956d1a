// The two streams that move a rank's offloaded data in and out while the rank computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace pipetrain {

struct OffloadStreams {
  OffloadStreams(Device& device, const std::string& name)
      : in(device.make_stream(name + " in")), out(device.make_stream(name + " out")) {}

  std::vector<Stream*> all() const { return {in.get(), out.get()}; }
  void synchronize() {
    in->synchronize();
    out->synchronize();
  }

  std::unique_ptr<Stream> in, out;
};

}  // namespace pipetrain
