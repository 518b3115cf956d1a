#include "actors/generation/generator.hpp"

#include <cassert>
#include <future>
#include <map>
#include <string>
#include <utility>

#include "actors/engine/pipeline.hpp"
#include "actors/generation/generation_layout.hpp"
#include "actors/generation/run_source.hpp"

namespace pipetrain {
namespace {

// The ranks of a stage, whose inputs are read by the forward alone.
class GenerationCompute : public RankedCompute {
 public:
  explicit GenerationCompute(const std::vector<GenerationRankSetup>& setups) : RankedCompute(makers(setups)) {}

  static schedules::SlotLife slot_life() { return {schedules::ActionKind::forward, schedules::ActionKind::weight_grad}; }
  void verdict(const Verdict&) override {}
  void read_logits(int sequence, std::vector<float>& logits) const {
    for (std::size_t index = 0; index < ranks(); ++index)
      static_cast<const GenerationRank&>(rank(index)).add_logits(sequence, logits);
  }

 private:
  static std::vector<RankMaker> makers(const std::vector<GenerationRankSetup>& setups) {
    std::vector<RankMaker> makers;
    for (const auto& setup : setups) {
      makers.push_back({"w" + std::to_string(setup.id.pp) + "r" + std::to_string(setup.id.tp),
                        [&setup] { return std::make_unique<GenerationRank>(setup); }});
    }
    return makers;
  }
};

std::vector<GenerationEstimate::Device> estimate_devices(const GenerationLayout& layout, const GenerationJob& job) {
  std::vector<GenerationEstimate::Device> devices;
  for (int stage = 0; stage < job.pp; ++stage) {
    for (const auto& setup : layout.rank_setups(job, stage, nullptr)) devices.push_back({setup.id, estimate_memory(setup)});
  }
  return devices;
}

// The CPU's devices share the host's memory, each GPU has its own.
std::optional<Error> memory_shortage(const GenerationLayout& layout, const std::vector<GenerationEstimate::Device>& devices) {
  std::map<std::string, std::size_t> needs;
  for (const auto& [rank, memory] : devices) {
    const Device& device = layout.device(rank);
    const std::string name = device.id().kind == DeviceKind::cpu ? "the host" : to_string(device.id());
    const std::size_t bytes = needs[name] += memory.total(), free = device.memory().free;
    if (bytes <= free) continue;
    return Error(ErrorKind::out_of_memory, name + ": generating needs at least " + std::to_string(bytes >> 20) + " MiB and " +
                                               std::to_string(free >> 20) +
                                               " MiB are free; use fewer new tokens, shorter prompts, or a smaller model");
  }
  return {};
}

}  // namespace

GenerationEstimate estimate_generation(const GenerationJob& job) {
  const GenerationLayout layout(job);
  GenerationEstimate estimate{estimate_devices(layout, job), layout.blocks(), {}};
  estimate.shortage = memory_shortage(layout, estimate.devices);
  return estimate;
}

class Generator::Run {
 public:
  explicit Run(const GenerationJob& job)
      : job_(job), layout_(job), runs_(std::make_shared<SequenceRuns>(static_cast<std::size_t>(job.sequences))) {
    if (const auto shortage = memory_shortage(layout_, estimate_devices(layout_, job))) throw Error(*shortage);
    build_computes();
    PipelineOptions options;
    options.plan = layout_.plan();
    options.slot_life = GenerationCompute::slot_life();
    options.needs = layout_.needs();
    options.stall = job.stall;
    pipeline_ = std::make_unique<Pipeline>(
        options, [this, next = std::size_t{0}](StageId, const schedules::StageNeeds&) mutable { return computes_[next++]; },
        [this](int) { return std::make_shared<RunSource>(runs_, layout_.stage_devices(0)); });
  }

  // What runs on one device may still touch another's memory: everything stops before anything is freed.
  ~Run() {
    pipeline_.reset();
    for (const auto& compute : computes_) compute->wait_until_idle();
  }

  void step(SequenceRuns runs) {
    assert(runs.size() == runs_->size());
    *runs_ = std::move(runs);
    pipeline_->step({++steps_, job_.sequences}, [](const auto&) { return Verdict{}; });
  }

  void read_logits(int sequence, std::vector<float>& logits) const {
    logits.clear();
    computes_.back()->read_logits(sequence, logits);
  }

  const GenerationJob& job() const { return job_; }

 private:
  // All at once: each reads its weights.
  void build_computes() {
    std::vector<std::future<std::shared_ptr<GenerationCompute>>> building;
    for (int stage = 0; stage < job_.pp; ++stage) {
      building.push_back(std::async(std::launch::async, [this, setups = layout_.rank_setups(job_, stage, runs_)] {
        return std::make_shared<GenerationCompute>(setups);
      }));
    }
    for (auto& one : building) one.wait();
    for (auto& one : building) computes_.push_back(one.get());
    job_.weights = nullptr;
  }

  GenerationJob job_;
  GenerationLayout layout_;  // devices and groups: outlives the computes
  std::shared_ptr<SequenceRuns> runs_;
  std::vector<std::shared_ptr<GenerationCompute>> computes_;  // by stage
  std::unique_ptr<Pipeline> pipeline_;                        // its actors end first
  std::int64_t steps_ = 0;
};

Generator::Generator(const GenerationJob& job) : run_(std::make_unique<Run>(job)) {}
Generator::~Generator() = default;

int Generator::sequences() const { return run_->job().sequences; }
std::int64_t Generator::positions() const { return run_->job().positions; }
void Generator::step(SequenceRuns runs) { run_->step(std::move(runs)); }
void Generator::read_logits(int sequence, std::vector<float>& logits) const { run_->read_logits(sequence, logits); }

}  // namespace pipetrain
