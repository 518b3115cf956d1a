// Replicas in several processes whose gradients and weights travel in few bits.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

// Returns losses and norms of twelve steps, in which second moments settle.
std::vector<std::pair<double, double>> coded_run(const std::string& command, const std::string& options) {
  const TempFolder folder;
  const auto metrics = folder.path() / "metrics.jsonl";
  const Result result = run(command + " --dp 2 --microbatches 2 --seq-len 16 --steps 12 --beta2 0.5 --device cpu --threads 1 " +
                            options + " --metrics " + metrics.string());
  INFO(command << " " << options << ": " << result.err);
  REQUIRE(result.status == 0);
  const bool tells = result.err.find("the second moments stay as they were after ") != std::string::npos;
  CHECK(tells == (options.find("1bit") != std::string::npos));
  std::vector<std::pair<double, double>> steps;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    steps.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  return steps;
}

TEST_CASE("replicas in two processes exchange gradients and weights in few bits with the bits of one process",
          "[launch][compress]") {
  if (!has_ucx()) return test::skip("this build has no UCX");
  for (const char* options : {"--compress-gradients int8", "--compress-gradients 1bit", "--zero 3 --compress-weights int8"}) {
    INFO(options);
    const auto one = coded_run("train", options);
    CHECK(one.size() == 12);
    CHECK(coded_run("launch --nproc 2", options) == one);
  }
}

}  // namespace
}  // namespace pipetrain
