// The golden models of the families in several processes.
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "model/weights/raw_folder.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Losses and norms of three steps, and the tensors after them.
struct FamilyRun {
  std::vector<std::pair<double, double>> steps;
  test::RawTensors tensors;
  bool operator==(const FamilyRun&) const = default;
};

FamilyRun family_run(const std::string& command, const fs::path& model, const std::string& layout) {
  const TempFolder folder;
  const Result result = run(command + " --device cpu --threads 1 --microbatch 1 --microbatches 4 --steps 3 --lr 0.01 --model " +
                            model.string() + " --data " + (model / "train.jsonl").string() + " " + layout + " --metrics " +
                            (folder.path() / "metrics.jsonl").string() + " --save " + (folder.path() / "run").string());
  INFO(command << " " << model << " " << layout << ": " << result.err);
  REQUIRE(result.status == 0);
  FamilyRun found;
  std::ifstream lines(folder.path() / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    found.steps.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  found.tensors = test::RawFolder(folder.path() / "run/model").tensors;
  return found;
}

void check_family_in_processes(const std::string& name) {
  const fs::path model = test::golden_folder(name);
  INFO(name);
  const FamilyRun one = family_run("", model, "");
  CHECK(one.steps.size() == 3);
  CHECK(family_run("launch --nproc 2", model, "--pp 2") == one);
  CHECK(family_run("launch --nproc 2", model, "--pp 2 --schedule dualpipe-v") == one);
  CHECK(family_run("launch --nproc 2", model, "--pp 2 --schedule zb-h1") == one);
  CHECK(family_run("launch --nproc 2", model, "--pp 2 --tp 2") == family_run("", model, "--tp 2"));
}

TEST_CASE("tied embeddings, biases and routed experts give the bits of one process in several", "[launch]") {
  if (!has_ucx()) return test::skip("this build has no UCX");
  for (const std::string name : {"gpt2_tiny", "qwen2_moe_tiny"}) check_family_in_processes(name);
}

TEST_CASE("each family gives the bits of one process in several", "[launch][slow]") {
  if (!has_ucx()) return test::skip("this build has no UCX");
  for (const std::string& name : test::golden_models())
    if (fs::exists(test::golden_folder(name) / "train.jsonl")) check_family_in_processes(name);  // else others have its data
}

}  // namespace
}  // namespace pipetrain
