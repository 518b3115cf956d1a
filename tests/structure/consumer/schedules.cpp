#include <iostream>

#include "schedules/builders/builders.hpp"
#include "schedules/plan/validate.hpp"

int main() {
  const auto plan = pipetrain::schedules::build_schedule("1f1b", {.stages = 4, .chunks = 1, .microbatches = 8});
  for (const auto& stage : pipetrain::schedules::validate(plan)) std::cout << stage.peak_activations << ' ';
}
