// Lower bounds on the end of every order of a problem, from its costs and slots alone.
#pragma once

#include "schedules/search/order_problem.hpp"

namespace pipetrain::schedules {

// Returns a time before which no order ends: the largest of four bounds of each stage s, which order_bounds.cpp proves.
double lower_bound(const OrderProblem& problem);

// The shortest paths through a problem, from which the bounds are made. By virtual stage, in a pipeline that does nothing else:
struct ShortestWays {
  explicit ShortestWays(const OrderProblem& problem);
  std::vector<double> first_forward;  // from the step's beginning to the first F
  std::vector<double> first_input;    // from the step's beginning to the first I
  std::vector<double> after_forward;  // from the end of an F to the last end that needs it
  std::vector<double> after_input;    // from the end of an I to the last end that needs it
};

}  // namespace pipetrain::schedules
