// The costs of a real run's actions, as JSON: written by `pipetrain --profile`, read by `pipetrain simulate --costs`.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "model/config/cut.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain {

// The costs of a chunk: seconds of one action, 0 where the run had none.
struct ChunkProfile {
  double forward = 0, backward = 0, input_grad = 0, weight_grad = 0;
  double reduce_grads = 0, sum_replicated = 0, sum_tied = 0;
  double offload = 0, reload = 0;
  // Bytes of a device for one microbatch: from F to B or W, and additional ones from I to W.
  double held_bytes = 0, pending_bytes = 0;
};

struct StageProfile {
  std::vector<ChunkProfile> chunks;
  double norm = 0, optimizer = 0;
};

struct Profile {
  std::string model;   // as the run named it
  std::string config;  // the model's configuration as compact JSON, see profile_config()
  int pp = 1, tp = 1, dp = 1, chunks = 1, microbatches = 1, microbatch = 1;
  bool v_shape = false;
  Cut cut = {};  // the model's cut into virtual stages; profiles of earlier builds lack it: their models were cut by cost
  bool sequence_parallel = false, tied = false;
  std::string schedule;
  // The settings that their rows mark as profiled, the device and the precision. Profiles of earlier builds have only the
  // device.
  RunSettings settings;
  bool has_settings = false;
  std::int64_t sequence = 0;
  std::int64_t steps = 0;   // measured
  double step_seconds = 0;  // median of a whole step
  double outside = 0;       // median of a step's time before its first action and after its last
  std::vector<double> p2p;  // [v]: seconds of a message between virtual stages v and v + 1
  double verdict = 0;       // time from the last N to the first O
  std::vector<StageProfile> stages;

  // Names the device and the settings, as far as they are known, e.g. "cuda, bf16, recompute full of 6 layers".
  std::string conditions() const;
  schedules::Placement placement() const;
  // Returns the run's model, with a further prediction if the run trained one; the weight of its loss is not known. Throws
  // Error(input) where the profile holds no model.
  ModelConfig measured_model() const;
  // True when the profile is of this model, apart from dropout and special tokens. Throws Error(input) where the
  // profile holds no model.
  bool is_of(const ModelConfig& other) const;
  // True when the run's plan had I and W, whose times a plan with I and W needs.
  bool splits_backward() const;
  schedules::EndOfStep end_of_step() const;
  // Returns the reason why the costs of a plan of this placement and kind of backward are unknown, for the end of a
  // line; else empty.
  std::string why_not(const schedules::Plan& plan) const;
  // Returns the costs of such a plan.
  schedules::Costs costs() const;
  // Returns the messages between stages of one chunk each, as Costs::set_edges() takes them.
  std::vector<schedules::Link> edges() const;
};

// Returns the text that identifies a model in its profiles; see Profile::is_of().
std::string profile_config(ModelConfig config);

// Measures the newest steps of a run. A time is the median over steps of the mean over a step's microbatches and
// replicas; the first step, a warm-up, counts only when it is the only one. A collective's time is that of the stage
// that entered it last. A message's time is the median over the messages that a stage waited for (transfer_times.hpp);
// where there was none, that of the others.
class ProfileRecorder {
 public:
  // The job must have its plan.
  ProfileRecorder(const TrainJob& job, std::string model);
  void add(const StepReport& report);
  // Returns the profile of the steps so far; at least one.
  Profile profile() const;

 private:
  struct Key {
    int stage, chunk;
    schedules::ActionKind kind;
    auto operator<=>(const Key&) const = default;
  };
  struct Step {
    std::map<Key, double> seconds;
    std::vector<std::optional<double>> p2p;  // by virtual stage: the median, where a stage waited for any message
    double verdict = 0, whole = 0, outside = 0;
  };

  std::vector<double> messages() const;

  Profile layout_;
  schedules::Placement placement_;
  std::deque<Step> steps_;
  bool first_dropped_ = false;
};

void write_profile(std::ostream& out, const Profile& profile);
// Reads at most 8 MiB. Throws Error(input) naming the file and the fault.
Profile read_profile(const std::filesystem::path& path);

}  // namespace pipetrain
