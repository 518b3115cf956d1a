// What a real run's actions cost, as JSON: written by `pipetrain --profile`, read by `pipetrain simulate --costs`.
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

// Of a chunk: seconds of one action, 0 where the run had none.
struct ChunkProfile {
  double forward = 0, backward = 0, input_grad = 0, weight_grad = 0;
  double reduce_grads = 0, sum_replicated = 0, sum_tied = 0;
  double offload = 0, reload = 0;
  // Bytes of a device for one microbatch: from F to B or W, and on top from I to W.
  double held_bytes = 0, pending_bytes = 0;
};

struct StageProfile {
  std::vector<ChunkProfile> chunks;
  double norm = 0, optimizer = 0;
};

struct Profile {
  std::string model;   // as the run named it
  std::string config;  // of the model: compact JSON, see profile_config()
  int pp = 1, tp = 1, dp = 1, chunks = 1, microbatches = 1, microbatch = 1;
  bool v_shape = false;
  Cut cut = {};  // of the model over its virtual stages; profiles of earlier builds do not tell, and were cut by cost
  bool sequence_parallel = false, tied = false;
  std::string schedule;
  std::string device;
  // How it computed. Profiles of earlier builds do not tell: empty, 0 and nothing.
  std::string precision, recompute;  // as the options are given
  int recompute_layers = 0;          // of each chunk; 0: all
  int loss_chunks = 1;               // of Numerics
  int zero = 0;                      // stage of ZeRO
  int cp = 1;                        // ranks that share each sequence; earlier builds profiled no others
  int threads = 0;                   // of one CPU device
  std::optional<bool> deterministic;
  std::int64_t sequence = 0;
  std::int64_t steps = 0;   // measured
  double step_seconds = 0;  // median of a whole step
  double outside = 0;       // median of what a step takes before its first action and after its last
  std::vector<double> p2p;  // [v]: of a message between virtual stages v and v + 1
  double verdict = 0;       // from the last N to the first O
  std::vector<StageProfile> stages;

  // The device and how it computed, as far as is known, e.g. "cuda, bf16, recompute full of 6 layers".
  std::string conditions() const;
  schedules::Placement placement() const;
  // Whether it was measured of this model, whatever that drops, and whichever tokens are special. Throws Error(input) where the
  // profile holds no model.
  bool is_of(const ModelConfig& other) const;
  // Whether the run's plan had I and W, whose times a plan of I and W needs.
  bool splits_backward() const;
  schedules::EndOfStep end_of_step() const;
  // Empty when the costs are known for a plan of this placement and kind of backward; else why not, for the end of a line.
  std::string why_not(const schedules::Plan& plan) const;
  // For such a plan.
  schedules::Costs costs() const;
  // The messages of one chunk a stage, as Costs::set_edges() takes them.
  std::vector<schedules::Link> edges() const;
};

// The text that stands for a model in its profiles; see Profile::is_of().
std::string profile_config(ModelConfig config);

// Gathers the newest steps of a run. A time is the median over steps of the mean over a step's microbatches and replicas; the
// first step, which warms up, counts only when it is alone. A collective's time is that of the stage that came to it last.
// A message's time is the median of those that were waited for (transfer_times.hpp); where none was, that of the other
// messages.
class ProfileRecorder {
 public:
  // The job has its plan.
  ProfileRecorder(const TrainJob& job, std::string model);
  void add(const StepReport& report);
  // Of what was added; at least one step.
  Profile profile() const;

 private:
  struct Key {
    int stage, chunk;
    schedules::ActionKind kind;
    auto operator<=>(const Key&) const = default;
  };
  struct Step {
    std::map<Key, double> seconds;
    std::vector<std::optional<double>> p2p;  // by virtual stage: the median, where any message was waited for
    double verdict = 0, whole = 0, outside = 0;
  };

  std::vector<double> messages() const;

  Profile layout_;
  schedules::Placement placement_;
  std::deque<Step> steps_;
  bool first_dropped_ = false;
};

void write_profile(std::ostream& out, const Profile& profile);
// Of at most 8 MiB. Throws Error(input) naming the file and what is wrong with it.
Profile read_profile(const std::filesystem::path& path);

}  // namespace pipetrain
