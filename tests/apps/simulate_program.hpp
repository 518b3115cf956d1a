// Runs pipetrain simulate as a user's shell would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

namespace pipetrain::simulate_program {

inline Result simulate(const std::string& arguments) { return pipetrain::run("simulate " + arguments); }

// Returns its JSON for schedules that it must be able to simulate.
inline nlohmann::json simulated(const std::string& arguments) {
  const Result result = simulate(arguments + " --json");
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

// Returns the line with which it refuses this.
inline std::string wrong(const std::string& arguments) { return refused("simulate " + arguments); }

}  // namespace pipetrain::simulate_program
