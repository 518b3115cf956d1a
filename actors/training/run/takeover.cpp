#include "actors/training/run/takeover.hpp"

#include <fmt/format.h>

#include "core/counted.hpp"

namespace pipetrain {

std::string to_string(const Takeover& takeover) {
  std::string taken;
  for (const auto& [rank, process] : takeover.taken) taken += fmt::format("; rank {} now runs in process {}", rank, process);
  return fmt::format(
      "{}{}; membership {} ({}) continues after step {}, {:.2f} s later (the old one had ended after {:.2f} s, the processes had "
      "gathered after {:.2f} s and had the states after {:.2f} s)",
      takeover.cause, taken, takeover.membership, counted(takeover.processes, "process", "es"), takeover.step, takeover.begun,
      takeover.ended, takeover.gathered, takeover.copied);
}

}  // namespace pipetrain
