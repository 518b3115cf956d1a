#include "core/process_group.hpp"

#include "core/error.hpp"

namespace pipetrain {

void Group::shift(Stream&, const Tensor&, const Tensor&) {
  throw Error(ErrorKind::unavailable, "this group passes no tensors round");
}

}  // namespace pipetrain
