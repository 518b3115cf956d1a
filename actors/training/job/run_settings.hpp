// The settings of a training run, in groups that are passed whole. A program fills them, from options or otherwise;
// make_train_job() checks the settings that depend on model and data.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/ranks/device_settings.hpp"
#include "actors/training/job/fault.hpp"
#include "comm/compressed/block_code.hpp"
#include "core/mesh.hpp"
#include "data/open_dataset.hpp"
#include "data/samples/sampler.hpp"
#include "model/config/cut.hpp"
#include "model/config/experts.hpp"
#include "model/config/numerics.hpp"
#include "model/config/offload.hpp"
#include "model/config/trained_parts.hpp"
#include "model/config/zero.hpp"
#include "model/optimizer/learning_rate.hpp"
#include "model/optimizer/loss_scale.hpp"
#include "model/optimizer/optimizer_settings.hpp"
#include "model/weights/saved_type.hpp"
#include "ops/preference.hpp"
#include "schedules/plan/order.hpp"

namespace pipetrain {

namespace schedules {
struct Plan;
struct RecordedOrder;
}  // namespace schedules

// The types in which frozen matrices may be kept; see WeightForm.
enum class BasePrecision { bf16, fp8, nf4 };

// Low-rank adapters, which are trained in place of the model.
struct AdapterSettings {
  std::int64_t rank = 0;        // 0: none, unless a folder is given
  std::optional<double> alpha;  // not given: twice the rank
  std::optional<double> dropout;
  std::string targets = "all";  // or names of modules, with commas between
  bool root_scale = false, magnitudes = false;
  bool train_embeddings = false, train_head = false, train_norms = false;  // besides the adapters
  std::string folder;                                                      // of an adapter to begin from, instead of a new one

  bool wanted() const { return rank > 0 || !folder.empty(); }
};

// The patterns of attention in place of the model's own windows.
struct AttentionSettings {
  std::int64_t window = 0, sinks = 0;  // 0: none
  std::string patterns;                // names with commas between; empty: all layers have the window, if there is one
  bool any() const { return window > 0 || sinks > 0 || !patterns.empty(); }
};

struct ModelSettings {
  std::string name = "tiny";           // a preset's name or a Hugging Face folder
  bool load_weights = false;           // take the folder's weights instead of random ones; never for a preset
  std::optional<std::int64_t> layers;  // keep the first of them only
  std::optional<std::int64_t> labels;  // classes of a new head, or as many as the model has
  std::optional<double> dropout;       // of everything the family can drop; not given: what the model was made with
  // The losses that keep experts' loads even; not given: as the model's config.json says.
  std::optional<double> balance_loss, z_loss;
  std::optional<bool> balance_by_layer;
  RouterRules router_rules;
  double mtp_loss = 0;   // the weight of a further prediction's loss; 0: none
  TrainedParts trained;  // the others stay as they are
  // The type of frozen matrices; not given: as the folder has them, or the type that operations read.
  std::optional<BasePrecision> base_precision;
  AdapterSettings adapter;
  AttentionSettings attention;
};

enum class TrainingLoss { lm, dpo, orpo, kto };

// The model that a loss of preferences compares with.
enum class ReferenceModel {
  stored,  // that of PreferenceSettings::reference
  begun,   // the model as its training began
  base     // the same without its adapters
};

// The loss of the model's completions, and the model that preference losses compare with.
struct PreferenceSettings {
  TrainingLoss loss = TrainingLoss::lm;
  double beta = 0.1;
  bool normalize = false;  // dpo: by the tokens of completions
  std::string reference;   // a Hugging Face folder; empty: the model as its training began
  // The model that this names. make_train_job() sets it.
  ReferenceModel reference_model = ReferenceModel::stored;
  bool precompute_reference = false;

  // No value for lm, whose loss is a mean over tokens.
  std::optional<PreferenceFormula> formula() const;
  // True when the reference of a model with adapters has none.
  bool compares_with_base() const { return reference_model != ReferenceModel::begun; }
};

// The order in which samples are taken from the data.
struct SampleOrder {
  bool shuffle = true;
  std::uint64_t seed = 0;  // of random weights too
};

// The parts of the model on the ranks of one replica, and the order in which they work.
struct LayoutSettings {
  int pp = 1, tp = 1, cp = 1;                   // cp: parts that each sequence is cut into
  int ep = 1;                                   // parts that the experts are divided into, over replicas
  bool sequence_parallel = true;                // where tp > 1
  std::string schedule = "1f1b";                // one of all_schedules(), or the plan's name
  int chunks = 1;                               // of the model on each stage
  int slices = 1;                               // of each microbatch's sequence, see schedules::Plan
  Cut cut = {};                                 // over pp x chunks virtual stages; empty: by cost
  std::shared_ptr<const schedules::Plan> plan;  // instead of the schedule of that name; has passed validate()
  std::string plan_file;                        // where it came from, for errors; may be empty
  schedules::Order order = schedules::Order::planned;
  std::shared_ptr<const schedules::RecordedOrder> replayed;  // a recorded run's steps, which chose by `order`; may be null
};

struct LearningRateSettings {
  LearningRate::Kind kind = LearningRate::Kind::cosine;
  double peak = 3e-4, minimum = 0;
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;  // a share of all steps, then warmup_steps is 0
  double warmup_initial = 0;           // from where the warm-up rises

  // For a run of this many steps in all.
  LearningRate over(std::int64_t total_steps) const;
};

struct LengthSettings {
  std::optional<std::int64_t> steps, epochs;  // the first limit reached; neither: see run_length()
};

// Measures the loss on data that is not trained on.
struct EvaluationSettings {
  std::vector<DataInput> inputs;  // empty and no split: nothing is
  std::optional<double> split;    // instead: this share of the training data's samples, drawn by the seed, is kept for it
  std::optional<std::int64_t> interval;  // in steps; not given: after each epoch. In any case at the end

  bool wanted() const { return !inputs.empty() || split; }
};

struct SavingSettings {
  std::optional<std::filesystem::path> folder;  // of checkpoints, and of the model at the end
  std::optional<std::int64_t> interval;         // in steps; not given: only at the end
  std::optional<std::int64_t> keep;             // the newest; not given: all
  std::optional<std::int64_t> keep_every;       // and those of steps that are multiples of this, however old
  SavedType type = SavedType::fp32;             // of the model at the end
  std::uint64_t shard_bytes = 5'000'000'000;    // of one of its files
  bool resume = false;                          // continue from the newest complete checkpoint of the folder
  std::optional<std::filesystem::path> load;    // the checkpoint to resume from, instead
  // The checkpoint that another process has verified and continues from; an empty path if that process begins afresh. Only
  // the parts that this process needs are read.
  std::optional<std::filesystem::path> verified;
};

// How the processes of a run go on when some of them are lost.
enum class Elastic {
  off,       // all end
  takeover,  // those that are left take over the lost ranks and repeat the step
};

// The numbers that replicas exchange in few bits.
struct Compression {
  BlockCode gradients = BlockCode::none;  // of matrices, with error feedback
  BlockCode weights = BlockCode::none;    // that replicas divide, of matrices; not `sign`
  // The hosts of the ranks that have the same weights, each with as many of them in a row: within a host gradients are summed
  // in fp32, and sums travel between hosts in few bits. 0: all travel in few bits.
  int hosts = 0;
};

// The settings that a TrainJob takes over unchanged.
struct JobSettings {
  PreferenceSettings preference;
  SampleOrder samples;
  LayoutSettings layout;
  BatchShape batch;  // with dp
  DeviceSettings devices;
  Numerics numerics;
  Zero zero;
  Compression compression;
  Offload offload;
  OptimizerSettings optimizer;
  double clip_norm = 1;  // 0: off
  // Stages begin the coming step's forwards before the gradient norm is known, from weights that assume a step without
  // clipping or skipping; if the verdict is another one, they begin again. The bits are the same. combinations.hpp
  // lists what this does not work with.
  bool post_validation = false;
  LossScaleSettings loss_scale;
  std::chrono::milliseconds stall{600000};  // without any action completing; 0: for ever
  std::optional<Fault> fault;
  Elastic elastic = Elastic::off;
  int spares = 0;  // the last processes of the run, which have no ranks until they take over those of a lost one

  // The replicas of batch.dp that divide the experts are an axis of their own. ep divides dp.
  MeshShape mesh_shape() const {
    return {.dp = static_cast<int>(batch.dp) / layout.ep, .pp = layout.pp, .cp = layout.cp, .ep = layout.ep, .tp = layout.tp};
  }
};

// Describes the errors of compressed gradients that the job's replicas keep, "int8 over 2 replicas, zero 0"; empty: none. They
// fit no job that is described otherwise.
std::string compression_text(const JobSettings& job);

struct RunSettings : JobSettings {
  ModelSettings model;
  DataSettings data;
  LearningRateSettings learning_rate;
  LengthSettings length;
  EvaluationSettings evaluation;
  SavingSettings saving;

  std::int64_t ranks() const { return std::int64_t{layout.pp} * layout.cp * layout.tp * batch.dp; }
};

}  // namespace pipetrain
