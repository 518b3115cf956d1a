#include "core/address_space.hpp"

#include <sys/resource.h>

namespace pipetrain {

std::optional<std::size_t> address_space_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace pipetrain
