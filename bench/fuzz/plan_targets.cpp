#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain::fuzz {
namespace {

// A plan that is read and written must read back unchanged.
void expect_same_plan(const schedules::Plan& plan, const schedules::Plan& again) {
  if (plan.placement != again.placement || plan.microbatches != again.microbatches || plan.stages != again.stages)
    throw std::logic_error("a plan changed when it was written and read again");
}

schedules::Plan written_and_read(const std::string& text, schedules::Plan (*parse)(std::string_view, const std::string&)) {
  try {
    return parse(text, "written");
  } catch (const schedules::PlanFileError& error) {
    throw std::logic_error(std::string("a plan that was read cannot be read when written: ") + error.what());
  }
}

void read_plan(std::string_view input) {
  const schedules::Plan plan = schedules::parse_plan(input, "plan.txt");
  expect_same_plan(plan, written_and_read(schedules::to_text(plan), schedules::parse_plan));
}

void read_csv(std::string_view input) {
  const schedules::Plan plan = schedules::parse_pytorch_csv(input, "plan.csv");
  expect_same_plan(plan, written_and_read(schedules::to_pytorch_csv(plan), schedules::parse_pytorch_csv));
}

}  // namespace

std::vector<Target> plan_targets() {
  Target plan{"plan", {}, {}, read_plan, nullptr}, csv{"csv", {}, {}, read_csv, nullptr};
  for (const auto& info : schedules::all_schedules()) {
    const schedules::Plan built = schedules::build_schedule(info.name, {2, info.default_chunks, 4});
    plan.seeds.push_back(schedules::to_text(built));
    csv.seeds.push_back(schedules::to_pytorch_csv(built));
  }
  csv.seeds.push_back(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  plan.dictionary = {"schedule:",
                     "placement:",
                     "looping",
                     "v-shape",
                     "chunks: 2\n",
                     "microbatches: 3\n",
                     "ready: backward-first\n",
                     "stage 2:",
                     "F0",
                     "1F0",
                     "B1",
                     "I2",
                     "W2",
                     "N",
                     "O",
                     "R",
                     "S",
                     "T",
                     "#"};
  csv.dictionary = {"0F0", "1B2", "0I1", "0W1", "(0F4;1B1)OVERLAP_F_B", "0SEND_F0", "1RECV_B0", "0UNSHARD", "0REDUCE_GRAD"};
  return {plan, csv};
}

}  // namespace pipetrain::fuzz
