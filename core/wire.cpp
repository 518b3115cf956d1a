#include "core/wire.hpp"

#include "core/error.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {

void WireReader::refuse(const char* what) {
  throw Error(ErrorKind::peer_lost, std::string("a message from another process holds ") + what);
}

void WireFieldReader::take(Shape& shape) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 48;
  static const Shape of_rank[Shape::max_rank + 1] = {{}, {0}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}};
  const int rank = in_.number<std::uint8_t>();
  if (rank > Shape::max_rank) WireReader::refuse("a shape of too many axes");
  shape = of_rank[rank];
  std::int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const auto size = in_.number<std::int64_t>();
    if (size < 0 || (size > 0 && elements > most_elements / size)) WireReader::refuse("a shape that no memory holds");
    shape = shape.with(axis, size);
    elements *= size;
  }
}

}  // namespace pipetrain
