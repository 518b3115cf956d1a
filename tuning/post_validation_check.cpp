#include "tuning/post_validation_check.hpp"

#include <string>

#include "core/error.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

void check_post_validation(const LayoutRequest& request) {
  if (!request.post_validation) return;
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::input, {"post-validation", "on"}, why); };
  if (request.zero.value_or(0) > 0) refuse("replicas divide nothing then; leave out zero, or turn it off");
  if (request.offload.any()) refuse("what is offloaded moves between steps; leave out offload, or turn it off");
  if (request.precision.fp8_products) refuse("is not built for fp8; use bf16, or turn it off");
  if (request.hosts > 1)
    refuse("between hosts nothing is sent before the verdict, which is not simulated; plan one host, or turn it off");
  if (request.search_cuts) refuse("cuts are searched for one step alone; leave out cut search, or turn it off");
  if (request.solver_seconds > 0)
    refuse("the solver makes orders for one step alone; leave out solver-seconds, or turn it off");
}

}  // namespace pipetrain
