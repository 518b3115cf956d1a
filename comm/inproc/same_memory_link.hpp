// The link between ranks that reach the slot's memory as their own: the result is computed in its place.
#pragma once

#include "comm/link.hpp"

namespace pipetrain {

class SameMemoryLink final : public Link {
 public:
  Tensor begin(Stream& compute, const Lane& lane) override;
  void send(Stream& compute, Lane& lane) override;
};

}  // namespace pipetrain
