// Two processes that measure the link between them, as two users' shells would start them.
#pragma once

#include <string>
#include <thread>

#include "apps/pipetrain_program.hpp"
#include "comm/control/held_port.hpp"

namespace pipetrain {

struct MeasuredLinks {
  Result first, second;  // the results of process 0, which writes the file, and of process 1
};

// Runs `doctor --measure FILE` with these further options. Requires that both succeed.
inline MeasuredLinks measure_links_into(const std::string& file, const std::string& options) {
  const HeldPort port(0);
  const auto measure = [&](int process) {
    return run("doctor " + options + " --measure '" + file + "' --nnodes 2 --node-rank " + std::to_string(process) +
               " --master 127.0.0.1:" + std::to_string(port.port()));
  };
  MeasuredLinks results;
  std::thread second([&] { results.second = measure(1); });
  results.first = measure(0);
  second.join();
  INFO(results.first.err << results.second.err);
  REQUIRE(results.first.status == 0);
  REQUIRE(results.second.status == 0);
  return results;
}

}  // namespace pipetrain
