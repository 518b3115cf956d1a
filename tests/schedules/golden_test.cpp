// Every schedule at 4 stages and 8 microbatches as a file under golden/: the plan as text, and below it, as comments,
// its timeline for F = I = W. Run with PIPETRAIN_WRITE_GOLDEN=1 to rewrite the files, then read the diff.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "paths.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;

namespace {

std::string golden_text(const Plan& plan) {
  const Timeline timeline = simulate(plan, Costs::uniform(plan.placement, 1, 1, 1));
  std::istringstream picture(draw_terminal(timeline));
  std::string text =
      to_text(plan) + "#\n# F = I = W = 1 for a whole stage, '.' is waiting, small letters are the second chunk:\n#\n";
  for (std::string line; std::getline(picture, line);) text += "# " + line + "\n";
  const Summary summary = summarize(timeline);
  std::ostringstream peaks;
  for (const auto& stage : summary.stages) peaks << " " << stage.peak_activations;
  return text + "#\n# most microbatches held, per stage:" + peaks.str() + "\n";
}

}  // namespace

TEST_CASE("the plans are those in golden/") {
  const std::string folder = pipetrain::test_data() + "/schedules/golden/";
  for (const ScheduleInfo& info : all_schedules()) {
    if (info.uses_costs) continue;  // it may find better plans
    const std::string path = folder + std::string(info.name) + ".txt";
    const std::string text = golden_text(info.build({4, info.default_chunks, 8}));
    if (std::getenv("PIPETRAIN_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    std::stringstream golden;
    golden << file.rdbuf();
    CAPTURE(path);
    CHECK(golden.str() == text);
    CHECK(to_text(parse_plan(golden.str(), path)) == text.substr(0, text.find('#')));
  }
}

TEST_CASE("the picture in docs/schedules.md is what the tool draws") {
  std::ifstream file(pipetrain::test_data() + "/../docs/zb-h1.svg");
  std::stringstream picture, drawn;
  picture << file.rdbuf();
  const Plan plan = build_schedule("zb-h1", {4, 1, 8});
  write_svg(drawn, simulate(plan, Costs::uniform(plan.placement, 1, 1, 1)));
  CHECK(picture.str() == drawn.str());
}

TEST_CASE("docs/schedules.md shows every schedule as it is") {
  std::ifstream file(pipetrain::test_data() + "/../docs/schedules.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const ScheduleInfo& info : all_schedules()) {
    CAPTURE(info.name);
    CHECK(page.str().find("\n## " + std::string(info.name) + "\n") != std::string::npos);
    if (info.uses_costs) continue;
    const Plan plan = info.build({4, info.default_chunks, 8});
    CHECK(page.str().find(draw_terminal(simulate(plan, Costs::uniform(plan.placement, 1, 1, 1)))) != std::string::npos);
  }
}
