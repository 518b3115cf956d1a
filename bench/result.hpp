// Reports a benchmark's numbers: one JSON line for each on stdout, everything else on stderr.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace pipetrain::bench {

enum class Limit { at_most, at_least, none };

// Prints {"bench","value","unit","limit","pass"} and returns pass; without a limit, "limit" and "pass" are null and it
// returns true. Names must not need escapes.
inline bool report(const std::string& bench, double value, const std::string& unit, Limit kind = Limit::none,
                   double limit = 0) {
  const bool pass = kind == Limit::none || (kind == Limit::at_most ? value <= limit : value >= limit);
  fmt::print("{{\"bench\":\"{}\",\"value\":{},\"unit\":\"{}\",\"limit\":{},\"pass\":{}}}\n", bench,
             std::isfinite(value) ? fmt::format("{:.6g}", value) : "null", unit,
             kind == Limit::none ? "null" : fmt::format("{:.6g}", limit),
             kind == Limit::none ? "null"
             : pass              ? "true"
                                 : "false");
  std::fflush(stdout);
  return pass;
}

}  // namespace pipetrain::bench
