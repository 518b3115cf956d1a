// A point of the model where training drops elements.
#pragma once

#include <cstdint>
#include <string>

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

// Returns the name of a site in this layer.
std::string dropout_name(std::int64_t layer, const char* part);

class DropoutSite {
 public:
  // `name` separates its draws from those of other sites, whatever the layout. rate: the share that is dropped,
  // from 0 to below 1, in steps of 1 / 65,536.
  DropoutSite(const std::string& name, double rate);

  // Returns the draw for this microbatch; it is not active if the rate is 0 or nothing is to be dropped.
  // first_plane: as in Dropout.
  Dropout draw(const BlockContext& context, std::int64_t first_plane = 0) const;
  // Enqueues for this rank's rows [Tr, H]: out = x, kept or dropped, plus residual. out may be the memory of x
  // or of residual. Call it only if the draw is active.
  void drop(const BlockContext& context, const Tensor& x, const Tensor& out,
            const std::optional<Tensor>& residual = std::nullopt) const;
  // A part of the logical tensor [T, columns]: rows from `first_row` of the microbatch's tokens, columns from `first_column`.
  struct Part {
    Tensor x;
    Tensor out;                           // may be the memory of x or of residual
    std::optional<Tensor> residual = {};  // as x
    std::int64_t first_row = 0, first_column = 0;
  };
  // Enqueues the same for any part.
  void drop_part(const BlockContext& context, const Part& part) const;
  bool active(const BlockContext& context) const { return dropped_ > 0 && context.draws; }

 private:
  std::uint64_t name_;  // checksum of the name
  std::uint32_t dropped_;
};

}  // namespace pipetrain
