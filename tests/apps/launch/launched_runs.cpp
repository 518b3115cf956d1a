#include "apps/launch/launched_runs.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

namespace fs = std::filesystem;

namespace pipetrain {

LearnedByLaunch learned(const fs::path& folder) {
  LearnedByLaunch result;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    result.metrics.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  result.weights = read_file(folder / "run" / "model" / "model.safetensors");
  return result;
}

std::string model_outputs(const fs::path& folder) {
  return " --metrics '" + (folder / "metrics.jsonl").string() + "' --save '" + (folder / "run").string() + "' ";
}

LearnedByLaunch train_launched(const std::string& command, const std::string& options, const std::string& variables) {
  const TempFolder folder;
  const bench::ProcessMark mark;
  const Result result =
      run(command + " " + small_launch + options + model_outputs(folder.path()), variables + " " + mark.variable());
  INFO(command << " " << options << ": " << result.err);
  CHECK(result.status == 0);
  CHECK(mark.all_gone());
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);  // of process 0 alone
  return learned(folder.path());
}

std::size_t count_of_lines(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace pipetrain
