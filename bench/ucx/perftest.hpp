// Runs UCX's own benchmark, ucx_perftest, for comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pipetrain::bench {

struct PerftestResult {
  double seconds;  // one way
  double bytes_per_second;
};

// Measures active messages of this size between two processes of this host. Returns nothing if ucx_perftest is missing
// or fails.
std::optional<PerftestResult> run_perftest(const char* test, std::size_t bytes, int messages, std::uint16_t port);

}  // namespace pipetrain::bench
