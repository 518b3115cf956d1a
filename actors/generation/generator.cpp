#include "actors/generation/generator.hpp"

#include <cassert>
#include <future>
#include <map>
#include <utility>

#include "actors/engine/pipeline.hpp"
#include "actors/engine/remote/engine_channel.hpp"
#include "actors/engine/run_failed.hpp"
#include "actors/generation/generation_layout.hpp"
#include "actors/generation/run_source.hpp"
#include "actors/ranks/named_values.hpp"
#include "core/process_group.hpp"
#include "model/weights/peft/peft_config.hpp"

namespace pipetrain {
namespace {

constexpr const char* logits_state = "logits";

// The ranks of a stage, or of a part of it, whose inputs only the forward reads.
class GenerationCompute : public RankedCompute {
 public:
  explicit GenerationCompute(const std::vector<GenerationRankSetup>& setups)
      : RankedCompute(makers(setups)), sequences_(static_cast<std::size_t>(setups.front().model.caches)) {}

  static schedules::SlotLife slot_life() { return {schedules::ActionKind::forward, schedules::ActionKind::weight_grad}; }
  void verdict(const Verdict&) override {}

  // Reads a rank's part of a sequence's logits; the name of the state is the sequence's place.
  void read_state(std::int64_t number, const StatePart& part, float* out) override {
    const auto index = static_cast<std::size_t>(part.rank);
    worker(index).post([this, &rank = generating(index), number, sequence = static_cast<int>(part.parameter), out] {
      rank.read_logits(sequence, out);
      events().state_read(number);
    });
  }
  std::size_t state_elements(const StatePart& part) const override {
    const auto rank = static_cast<std::size_t>(part.rank);
    if (rank >= ranks() || part.state != logits_state || part.parameter >= sequences_)
      throw Error(ErrorKind::internal, "these logits do not exist");
    return generating(rank).logits_count();
  }
  void read_logits(int sequence, std::vector<float>& logits) const {
    for (std::size_t index = 0; index < ranks(); ++index) {
      const std::size_t begin = logits.size();
      logits.resize(begin + generating(index).logits_count());
      generating(index).read_logits(sequence, logits.data() + begin);
    }
  }

 private:
  const GenerationRank& generating(std::size_t index) const { return static_cast<const GenerationRank&>(rank(index)); }

  static std::vector<RankMaker> makers(const std::vector<GenerationRankSetup>& setups) {
    std::vector<RankMaker> makers;
    for (const auto& setup : setups) makers.push_back({setup.id, [&setup] { return std::make_unique<GenerationRank>(setup); }});
    return makers;
  }

  std::size_t sequences_;
};

std::vector<GenerationEstimate::Device> estimate_devices(const GenerationLayout& layout, const GenerationJob& job) {
  std::vector<GenerationEstimate::Device> devices;
  for (const StageId id : layout.stages()) {
    for (const auto& setup : layout.rank_setups(job, id)) devices.push_back({setup.id, estimate_memory(setup)});
  }
  return devices;
}

// CPU devices share the machine's memory, each GPU has its own. other_bytes: bytes of the machine's memory that other
// processes of the run need.
std::optional<Error> memory_shortage(const GenerationLayout& layout, const std::vector<GenerationEstimate::Device>& devices,
                                     std::size_t other_bytes) {
  const std::string host = "the host";
  std::map<std::string, std::size_t> needs{{host, other_bytes}};
  for (const auto& [rank, memory] : devices) {
    const Device& device = layout.device(rank);
    const std::string name = device.id().kind == DeviceKind::cpu ? host : to_string(device.id());
    const std::size_t bytes = needs[name] += memory.total(), free = device.memory().free;
    if (bytes <= free) continue;
    return Error(ErrorKind::out_of_memory, name + ": generating needs at least " + std::to_string(bytes >> 20) + " MiB and " +
                                               std::to_string(free >> 20) +
                                               " MiB are free; use fewer new tokens, shorter prompts, or a smaller model");
  }
  return {};
}

NamedValues contents_of(const GenerationJob& job) {
  NamedValues contents{model_content(job.config),
                       {"number of sequences", std::to_string(job.sequences)},
                       {"number of positions", std::to_string(job.positions)},
                       {"number of adapters", std::to_string(job.adapters.size())}};
  for (const GenerationAdapter& adapter : job.adapters)
    contents.push_back({"adapter " + adapter.name, checksum_text(peft_config_text(adapter.config, ""))});
  return contents;
}

}  // namespace

GenerationEstimate estimate_generation(const GenerationJob& job, const std::optional<PlannedProcesses>& planned) {
  const GenerationLayout layout(job, nullptr, planned);
  GenerationEstimate estimate{estimate_devices(layout, job), layout.blocks(), {}};
  estimate.shortage = memory_shortage(layout, estimate.devices, 0);
  return estimate;
}

class Generator::Run {
 public:
  Run(const GenerationJob& job, std::shared_ptr<EngineChannel> channel)
      : job_(job),
        channel_(std::move(channel)),
        layout_(job, channel_),
        limits_{job.sequences, job.positions, job.config.vocabulary, static_cast<int>(job.adapters.size())},
        logits_(static_cast<std::size_t>(job.sequences)) {
    check_memory();
    build_computes();
    PipelineOptions options;
    options.plan = layout_.plan();
    options.slot_life = GenerationCompute::slot_life();
    options.needs = layout_.needs();
    options.stall = job.stall;
    if (channel_) options.processes = processes();
    pipeline_ = std::make_unique<Pipeline>(
        options, [this, next = std::size_t{0}](StageId, const schedules::StageNeeds&) mutable { return computes_[next++]; },
        [this](int) { return make_source(0); });
  }

  // Work on one device may still touch another's memory, so everything stops before anything is freed.
  ~Run() {
    pipeline_.reset();
    for (const auto& compute : computes_) compute->wait_until_idle();
  }

  void step(const SequenceRuns& runs) {
    assert(runs.size() == logits_.size());
    StepInfo info{++steps_, job_.sequences};
    info.content = std::make_shared<const Bytes>(to_bytes(runs));
    pipeline_->step(info, [](const auto&) { return Verdict{}; });
    if (channel_) fetch_logits(runs);
  }

  void read_logits(int sequence, std::vector<float>& logits) const {
    if (channel_) {
      logits = logits_[static_cast<std::size_t>(sequence)];
      return;
    }
    logits.clear();
    computes_.back()->read_logits(sequence, logits);
  }

  void abort(std::exception_ptr cause) {
    pipeline_->abort(std::move(cause));
    try {
      step(SequenceRuns(logits_.size()));
    } catch (const RunFailed&) {  // the caller has already got it
    }
  }

  Pipeline& pipeline() { return *pipeline_; }
  const GenerationJob& job() const { return job_; }

 private:
  // The machine's memory is shared by all of the run's processes on it.
  void check_memory() {
    const auto devices = estimate_devices(layout_, job_);
    std::size_t other_bytes = 0;
    if (channel_ && job_.devices.kind == DeviceKind::cpu) {
      std::size_t own = 0;
      for (const auto& device : devices) own += device.memory.total();
      other_bytes = host_bytes_of_others(*channel_, own);
    }
    if (const auto shortage = memory_shortage(layout_, devices, other_bytes)) throw Error(*shortage);
  }

  // Builds all at once, because each reads its weights.
  void build_computes() {
    std::vector<std::future<std::shared_ptr<GenerationCompute>>> building;
    for (const StageId id : layout_.stages()) {
      building.push_back(std::async(std::launch::async, [setups = layout_.rank_setups(job_, id)] {
        return std::make_shared<GenerationCompute>(setups);
      }));
    }
    for (auto& one : building) one.wait();
    for (auto& one : building) computes_.push_back(one.get());
    job_.weights = nullptr;
    for (GenerationAdapter& adapter : job_.adapters) adapter.weights = nullptr;
  }

  PipelineProcesses processes() {
    PipelineProcesses processes;
    processes.channel = channel_;
    processes.transport = layout_.transport();
    processes.parts = layout_.parts().stage_mesh();
    processes.make_source = [this](int, int part) { return make_source(part); };
    return processes;
  }

  std::shared_ptr<InputSource> make_source(int part) const {
    return std::make_shared<RunSource>(limits_, layout_.stage_devices({0, 0, part}));
  }

  // Fetches the logits of all sequences at once, from every rank that holds a part of the head.
  void fetch_logits(const SequenceRuns& runs) {
    const RowSplit rows(job_.config.vocabulary, job_.tp);
    std::vector<std::future<void>> reading;
    for (std::size_t sequence = 0; sequence < runs.size(); ++sequence) {
      if (runs[sequence].ids.empty()) continue;
      logits_[sequence].resize(static_cast<std::size_t>(rows.total()));
      for (int tp = 0; tp < job_.tp; ++tp) {
        const auto [part, number] = layout_.parts().part_rank(tp);
        const StatePart wanted{number, logits_state, sequence, 0, static_cast<std::size_t>(rows.count(tp))};
        reading.push_back(pipeline_->read_state({0, job_.pp - 1, part}, wanted, logits_[sequence].data() + rows.begin(tp)));
      }
    }
    for (auto& one : reading) one.get();
  }

  GenerationJob job_;
  std::shared_ptr<EngineChannel> channel_;  // null: one process
  GenerationLayout layout_;                 // has devices and groups, so it outlives the computes
  RunLimits limits_;
  std::vector<std::vector<float>> logits_;  // used over several processes, by sequence; running work may still fill them
  std::vector<std::shared_ptr<GenerationCompute>> computes_;  // of this process's parts of stages
  std::unique_ptr<Pipeline> pipeline_;                        // declared last, so that its actors end first
  std::int64_t steps_ = 0;
};

Generator::Generator(const GenerationJob& job) {
  if (!job.processes || job.processes->control->processes() == 1) {
    run_ = std::make_unique<Run>(job, nullptr);
    return;
  }
  const auto channel = std::make_shared<EngineChannel>(job.processes->control);
  try {
    compare_contents(contents_of(job), *channel);
    run_ = std::make_unique<Run>(job, channel);
  } catch (...) {
    std::rethrow_exception(channel->fail(std::current_exception()));
  }
}
Generator::~Generator() = default;

int Generator::sequences() const { return run_->job().sequences; }
std::int64_t Generator::positions() const { return run_->job().positions; }
std::int64_t Generator::short_positions() const { return run_->job().config.rope.short_positions(); }
void Generator::step(const SequenceRuns& runs) { run_->step(runs); }
void Generator::read_logits(int sequence, std::vector<float>& logits) const { run_->read_logits(sequence, logits); }
void Generator::follow() { run_->pipeline().follow(); }
void Generator::abort(std::exception_ptr cause) { run_->abort(std::move(cause)); }
std::vector<std::string> Generator::waiting() { return run_->pipeline().waiting(); }
void Generator::finish_step(std::chrono::milliseconds patience) { run_->pipeline().finish_step(patience); }

}  // namespace pipetrain
