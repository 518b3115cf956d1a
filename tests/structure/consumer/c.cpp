#include <pipetrain/pipetrain.h>

#include <iostream>

int main() {
  const pipetrain_plan_request request{sizeof(pipetrain_plan_request), "zb-h1", 4, 0, 8};
  pipetrain_plan* plan = nullptr;
  pipetrain_timeline* timeline = nullptr;
  pipetrain_summary summary{};
  summary.struct_size = sizeof summary;
  if (pipetrain_plan_build(&request, &plan) != PIPETRAIN_OK ||
      pipetrain_simulate(plan, nullptr, nullptr, &timeline) != PIPETRAIN_OK ||
      pipetrain_timeline_summary(timeline, &summary) != PIPETRAIN_OK)
    std::cout << pipetrain_last_error();
  std::cout << summary.makespan;
  pipetrain_timeline_free(timeline);
  pipetrain_plan_free(plan);
}
