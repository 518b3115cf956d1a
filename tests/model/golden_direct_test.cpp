// The reference trajectories through StageModel and the optimizer in a plain loop: the results of the model alone,
// without actors.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "model/direct_pipeline.hpp"
#include "model/weights/full_tensors.hpp"
#include "paths.hpp"
#include "skip.hpp"

namespace pipetrain::test {
namespace {

namespace fs = std::filesystem;

struct Golden {
  fs::path folder;
  ModelConfig config;
  nlohmann::json trajectory;
  std::vector<std::vector<std::int32_t>> sequences;
  std::int64_t sequence = 0, global_batch = 0;

  explicit Golden(const std::string& name) : folder(fs::path(test_data()) / "golden" / name) {
    config = read_hf_config(folder);
    trajectory = nlohmann::json::parse(std::ifstream(folder / "trajectory.json"));
    std::ifstream rows(folder / "train.jsonl");
    for (std::string line; std::getline(rows, line);) {
      sequences.push_back(nlohmann::json::parse(line).at("input_ids").get<std::vector<std::int32_t>>());
    }
    sequence = trajectory.at("seq_len");
    global_batch = trajectory.at("global_batch");
  }

  Microbatch microbatch(std::int64_t first_row, std::int64_t rows) const {
    Microbatch microbatch;
    for (std::int64_t row = first_row; row < first_row + rows; ++row) {
      const auto& tokens = sequences.at(static_cast<std::size_t>(row));
      microbatch.ids.insert(microbatch.ids.end(), tokens.begin(), tokens.end() - 1);
      microbatch.targets.insert(microbatch.targets.end(), tokens.begin() + 1, tokens.end());
    }
    return microbatch;
  }
};

// A folder in which the final weights have the name of a model's weights.
class FinalWeights {
 public:
  explicit FinalWeights(const Golden& golden)
      : folder_(fs::temp_directory_path() / ("pipetrain_final_" + golden.folder.filename().string())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy_file(golden.folder / "config.json", folder_ / "config.json");
    fs::copy_file(golden.folder / "final.safetensors", folder_ / "model.safetensors");
  }
  ~FinalWeights() { fs::remove_all(folder_); }
  Tensors load(const ModelConfig& config) const { return load_all(*hf_weights(config, folder_), config); }

 private:
  fs::path folder_;
};

void check_first_grad_norms(const Golden& golden, const std::vector<NormPart>& parts) {
  std::map<std::string, double> squares;
  for (const NormPart& part : parts) squares[part.name] += part.square_sum;
  const auto& expected = golden.trajectory.at("first_grad_norms");
  REQUIRE(squares.size() == expected.size());
  for (const auto& [name, square] : squares) {
    INFO(name);
    CHECK(std::sqrt(square) == Approx(expected.at(name).get<double>()).epsilon(1e-4));
  }
}

// A few elements may deviate. Adam's first steps divide a gradient by its own size plus eps (1e-8), so an element whose
// gradient is about as small as eps moves by any part of the learning rate, decided by rounding: by that of the
// reference (which computes norms, softmax and angles in fp32) as much as by ours. With all of the model in fp64, two
// such elements of 412,000 remain; in Hugging Face's own fp32 run two and five deviate, in part the same
// (bench/peers/hf_golden_fp32.py).
void check_weights(const Tensors& weights, const Tensors& expected, double learning_rate, std::int64_t steps) {
  REQUIRE(weights.size() == expected.size());
  constexpr std::int64_t may_stray = 8;
  std::int64_t strayed = 0;
  for (const auto& [name, values] : weights) {
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(static_cast<double>(values[i]) - expected.at(name)[i]);
      if (!(difference < 1e-4)) ++strayed;
      worst = std::max(worst, difference);
    }
    INFO(name);
    CHECK(worst < learning_rate * static_cast<double>(steps));
  }
  CHECK(strayed <= may_stray);
}

void follow(const Golden& golden, const Tensors& final_weights, const PipelineSetup& setup) {
  DirectPipeline pipeline(setup, *hf_weights(golden.config, golden.folder));
  const auto& optimizer = golden.trajectory.at("optimizer");
  const double tokens = static_cast<double>(golden.global_batch * golden.sequence);
  std::int64_t step = 0;
  for (const auto& expected : golden.trajectory.at("steps")) {
    double loss = 0;
    pipeline.begin_step();
    for (std::int64_t row = 0; row < golden.global_batch; row += setup.shape.batch) {
      pipeline.forward(0, golden.microbatch(step * golden.global_batch + row, setup.shape.batch));
      pipeline.backward(0, static_cast<float>(1 / tokens));
      loss += pipeline.loss_sum(0);
    }
    ++step;
    pipeline.complete_grads();
    const std::vector<NormPart> parts = pipeline.norm_parts();
    const double norm = global_norm(parts);
    INFO("step " << step);
    CHECK(loss / tokens == Approx(expected.at("loss").get<double>()).epsilon(2e-5));
    CHECK(norm == Approx(expected.at("grad_norm").get<double>()).epsilon(1e-4));
    if (step == 1) check_first_grad_norms(golden, parts);
    pipeline.optimize(
        {"adamw", optimizer.at("betas")[0], optimizer.at("betas")[1], optimizer.at("eps"), optimizer.at("weight_decay")},
        {optimizer.at("lr"), step, clip_factor(norm, optimizer.at("clip"))});
  }
  check_weights(pipeline.weights(), final_weights, optimizer.at("lr"), step);
}

}  // namespace

TEST_CASE("StageModel follows the golden trajectories", "[golden]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Golden golden(name);
    const Tensors final_weights = FinalWeights(golden).load(golden.config);
    for (const int tp : {1, 2, 4}) {
      for (const std::int64_t microbatch : {1, 2, 4}) {
        PipelineSetup setup;
        setup.config = golden.config;
        setup.shape = {microbatch, golden.sequence};
        setup.tp = tp;
        setup.sequence_parallel = tp > 1;
        setup.loss_chunks = microbatch == 2 ? 3 : 1;
        INFO(name << " tp " << tp << " microbatch " << microbatch << ", " << setup.loss_chunks << " chunks of the loss");
        follow(golden, final_weights, setup);
      }
    }
  }
}

TEST_CASE("StageModel follows the golden trajectories on a GPU", "[golden][gpu]") {
  if (!needs_gpus(cuda_device_count())) return;
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Golden golden(name);
    const Tensors final_weights = FinalWeights(golden).load(golden.config);
    for (const auto& [microbatch, loss_chunks] : {std::pair{1, 1}, {4, 1}, {4, 3}}) {
      PipelineSetup setup;
      setup.config = golden.config;
      setup.shape = {microbatch, golden.sequence};
      setup.loss_chunks = loss_chunks;
      setup.device = DeviceKind::cuda;
      INFO(name << " microbatch " << microbatch << ", " << loss_chunks << " chunks of the loss");
      follow(golden, final_weights, setup);
    }
  }
}

}  // namespace pipetrain::test
