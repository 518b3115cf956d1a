#include "core/process_group.hpp"

#include "core/error.hpp"

namespace pipetrain {

void Group::all_to_all(Stream& stream, const RowExchange& exchange) {
  static_cast<void>(stream), static_cast<void>(exchange);
  throw Error(ErrorKind::internal, "this group exchanges no rows");
}

}  // namespace pipetrain
