// UCX's own benchmark, ucx_perftest, beside ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pipetrain::bench {

struct PerftestResult {
  double seconds;  // one way
  double bytes_per_second;
};

// Active messages of this size between two processes of this host. Nothing where ucx_perftest is not installed or fails.
std::optional<PerftestResult> run_perftest(const char* test, std::size_t bytes, int messages, std::uint16_t port);

}  // namespace pipetrain::bench
