#include "golden_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/ranks/run_processes.hpp"
#include "actors/training/job/job_plan.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/weights.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {
namespace {

namespace fs = std::filesystem;

fs::path golden_folder(const std::string& name) { return fs::path(test_data()) / "golden" / name; }

nlohmann::json trajectory(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(golden_folder(name) / "trajectory.json"));
}

// Returns a folder for files that only the test itself reads, because waiting for a disk takes longer than a small run.
fs::path memory_folder() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK | X_OK) == 0 ? memory : fs::temp_directory_path();
}

void apply_layout(const Layout& layout, std::int64_t global_batch, TrainJob& job) {
  job.layout.pp = layout.pp;
  job.layout.tp = layout.tp;
  job.layout.cp = layout.cp;
  job.layout.ep = layout.ep;
  job.layout.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
  job.batch = {layout.dp, global_batch / layout.dp / layout.microbatch, layout.microbatch};
  job.layout.schedule = layout.schedule;
  job.layout.chunks = layout.chunks;
  job.layout.slices = layout.slices;
  job.layout.cut = layout.cut;
  job.layout.order = layout.order;
  job.devices.threads = layout.threads;
  job.numerics.recompute = layout.recompute;
  job.numerics.recompute_layers = layout.recompute_layers;
  job.numerics.loss_chunks = layout.loss_chunks;
  job.zero.stage = layout.zero;
  job.offload = offload_of(layout);
  job.zero.prefetch = layout.prefetch;
}

}  // namespace

Offload offload_of(const Layout& layout) {
  Offload offload{.optimizer = layout.offload, .parameters = layout.parameters, .gradients = layout.gradients};
  offload.activations = layout.activations > 0;
  if (offload.activations) offload.activation_fraction = layout.activations;
  if (offload.any()) offload.folder = fs::temp_directory_path();
  return offload;
}

std::string to_string(const Layout& layout) {
  constexpr const char* recompute[] = {"", " recompute selective", " recompute full"};
  return fmt::format("pp {} cp {} tp {} dp {}{} zero {}{}{} microbatch {} {} chunks {} slices {}{} {}{}{}{}{}", layout.pp,
                     layout.cp, layout.tp, layout.dp, layout.ep > 1 ? fmt::format(" ep {}", layout.ep) : "", layout.zero,
                     fmt::format("{}{}{}{}", layout.offload ? " offload" : "", layout.parameters ? " parameters" : "",
                                 layout.gradients ? " gradients" : "",
                                 layout.prefetch != 1 ? fmt::format(" prefetch {}", layout.prefetch) : ""),
                     layout.activations > 0 ? fmt::format(" activations {}", layout.activations) : "", layout.microbatch,
                     layout.schedule, layout.chunks, layout.slices, layout.cut.empty() ? "" : " cut " + cut_text(layout.cut),
                     layout.order == schedules::Order::planned ? "planned" : "ready",
                     layout.sequence_parallel ? "" : " no sequence parallel", recompute[static_cast<int>(layout.recompute)],
                     layout.recompute_layers ? fmt::format(" of {} layers", *layout.recompute_layers) : "",
                     layout.loss_chunks > 1 ? fmt::format(" loss in {} chunks", layout.loss_chunks) : "");
}

namespace {

// The optimizer, the batches and the layout are those of a trajectory.
void apply_trajectory(const nlohmann::json& reference, const Layout& layout, TrainJob& job) {
  const auto& optimizer = reference.at("optimizer");
  apply_layout(layout, reference.at("global_batch"), job);
  job.optimizer.beta1 = optimizer.at("betas")[0];
  job.optimizer.beta2 = optimizer.at("betas")[1];
  job.optimizer.eps = optimizer.at("eps");
  job.optimizer.weight_decay = optimizer.at("weight_decay");
  job.learning_rate.kind = LearningRate::Kind::constant;
  job.learning_rate.peak = optimizer.at("lr");
  job.clip_norm = optimizer.at("clip");
}

void add_golden_adapter(const fs::path& folder, TrainJob& job) {
  job.config = with_peft_config(job.config, folder);
  job.initial.weights = adapted_weights(job.initial.weights, peft_weights(job.config, folder));
}

Reference losses_and_norms(const nlohmann::json& golden) {
  Reference reference;
  for (const auto& step : golden.at("steps")) {
    reference.loss.push_back(step.at("loss"));
    reference.grad_norm.push_back(step.at("grad_norm"));
    if (step.contains("mtp_loss")) reference.mtp_loss.push_back(step.at("mtp_loss"));
    if (step.contains("aux_loss")) reference.aux_loss.push_back(step.at("aux_loss"));
  }
  return reference;
}

}  // namespace

TrainJob golden_job(const std::string& name, const Layout& layout) {
  TrainJob job;
  job.config = read_hf_config(golden_folder(name));
  if (const auto reference = trajectory(name); reference.contains("mtp"))
    job.config.mtp.loss = reference.at("mtp").at("weight");
  job.initial.weights = hf_weights(job.config, golden_folder(name));
  if (const fs::path adapter = golden_folder(name) / "adapter"; fs::exists(adapter)) add_golden_adapter(adapter, job);
  DatasetOptions data;
  data.inputs = {{golden_folder(name) / "train.jsonl", {}}};
  data.vocabulary = job.config.vocabulary;
  data.shuffle = false;
  if (job.config.classifies()) data.classes = job.config.outputs();
  job.dataset = open_dataset(data);
  job.samples.shuffle = false;
  apply_trajectory(trajectory(name), layout, job);
  return job;
}

TrainJob golden_adapter_job(const std::string& name, const Layout& layout) {
  const auto reference = trajectory("adapters/" + name);
  TrainJob job = golden_job(reference.at("model"), layout);
  add_golden_adapter(golden_folder("adapters/" + name) / "adapter", job);
  apply_trajectory(reference, layout, job);
  return job;
}

TrainJob random_job(const ModelConfig& config, std::int64_t sequence, std::int64_t global_batch, const Layout& layout) {
  TrainJob job;
  job.config = config;
  job.initial.weights = random_weights(config, 7);
  DatasetOptions data;
  data.sequence_length = sequence;
  data.vocabulary = config.vocabulary;
  job.dataset = open_dataset(data);
  apply_layout(layout, global_batch, job);
  job.optimizer.weight_decay = 0.1F;
  job.learning_rate.kind = LearningRate::Kind::constant;
  job.learning_rate.peak = 2e-3;
  return job;
}

TrainJob with_plan(TrainJob job) {
  job.plan = build_plan(job);
  return job;
}

RunRecord run(TrainJob job, std::int64_t steps) {
  const std::int64_t all = job.steps_done + steps;
  return run(std::move(job), all, [](Trainer& trainer) { return trainer.step(); });
}

RunRecord run(TrainJob job, std::int64_t steps, const std::function<StepReport(Trainer&)>& run_step) {
  const ModelConfig config = job.config;
  const bool leads = !job.processes || job.processes->control->process() == 0;
  Trainer trainer(std::move(job));
  RunRecord record;
  if (!leads) REQUIRE(trainer.follow());
  for (std::int64_t step = trainer.steps_done(); step < steps; ++step) {
    const StepReport report = run_step(trainer);
    record.loss.push_back(report.loss);
    record.grad_norm.push_back(report.grad_norm);
    if (report.mtp_loss) record.mtp_loss.push_back(*report.mtp_loss);
    if (report.aux_loss) record.aux_loss.push_back(*report.aux_loss);
    record.learning_rate.push_back(report.learning_rate);
    record.tokens.push_back(report.tokens);
  }
  const TempFolder folder(memory_folder());
  trainer.save_model(folder.path() / "model");
  if (config.adapter.exists()) {
    const auto trained = peft_weights(config, folder.path() / "model");
    const auto tensors = logical_tensors(config);
    for (const std::size_t i : trained_tensors(config))
      record.weights[tensors[i].name] = load(*trained, whole(config, tensors[i]));
  } else {
    record.weights = load_all(*hf_weights(config, folder.path() / "model"), config);
  }
  return record;
}

std::string refusal(const TrainJob& job) {
  try {
    const Trainer trainer(job);
    return "none";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

Reference golden_reference(const std::string& name) {
  Reference reference = losses_and_norms(trajectory(name));
  if (!fs::exists(golden_folder(name) / "final.safetensors")) return reference;
  const TempFolder folder;  // the final weights under the name of a model's weights
  fs::copy_file(golden_folder(name) / "config.json", folder.path() / "config.json");
  fs::copy_file(golden_folder(name) / "final.safetensors", folder.path() / "model.safetensors");
  const ModelConfig config = read_hf_config(folder.path());
  reference.weights = load_all(*hf_weights(config, folder.path()), config);
  return reference;
}

Reference golden_adapter_reference(const std::string& name) { return losses_and_norms(trajectory("adapters/" + name)); }

void check_golden(const RunRecord& record, const Reference& reference) {
  REQUIRE(record.loss.size() == reference.loss.size());
  REQUIRE(record.aux_loss.size() == reference.aux_loss.size());
  REQUIRE(record.mtp_loss.size() == reference.mtp_loss.size());
  for (std::size_t step = 0; step < reference.loss.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= 2e-5);
    CHECK(std::abs(record.grad_norm[step] / reference.grad_norm[step] - 1) <= 1e-4);
    if (!reference.mtp_loss.empty()) CHECK(std::abs(record.mtp_loss[step] / reference.mtp_loss[step] - 1) <= 2e-5);
    if (!reference.aux_loss.empty()) CHECK(std::abs(record.aux_loss[step] / reference.aux_loss[step] - 1) <= 2e-5);
  }
  if (reference.weights.empty()) return;
  int strayed = 0;  // see golden_direct_test.cpp: rounding decides elements whose gradient is as small as Adam's eps
  REQUIRE(record.weights.size() == reference.weights.size());
  for (const auto& [name, values] : record.weights) {
    const auto& expected = reference.weights.at(name);
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) strayed += !(std::abs(values[i] - expected[i]) <= 1e-4F);
  }
  CHECK(strayed <= 8);
}

void check_close(const RunRecord& record, const RunRecord& other) {
  for (std::size_t step = 0; step < record.loss.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(std::abs(record.loss[step] / other.loss[step] - 1) <= 2e-5);
    CHECK(std::abs(record.grad_norm[step] / other.grad_norm[step] - 1) <= 2e-4);
  }
}

}  // namespace pipetrain::test
