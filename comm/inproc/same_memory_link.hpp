// The link between ranks that address the slot's memory directly: the result is computed in place.
#pragma once

#include "comm/link.hpp"

namespace pipetrain {

class SameMemoryLink final : public Link {
 public:
  Tensor begin(Stream& compute, const Lane& lane) override;
  void send(Stream& compute, Lane& lane) override;
};

}  // namespace pipetrain
