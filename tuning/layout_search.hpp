// Finds the fastest layouts of a model over devices by simulating each with a model of the devices.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/features.hpp"
#include "actors/training/job/run_settings.hpp"
#include "core/device_kind.hpp"
#include "core/dtype.hpp"
#include "model/config/block.hpp"
#include "model/config/config.hpp"
#include "model/config/cut.hpp"
#include "model/config/numerics.hpp"
#include "model/config/offload.hpp"
#include "model/config/zero.hpp"
#include "model/optimizer/optimizer_settings.hpp"
#include "schedules/plan/plan.hpp"
#include "tuning/cut_search.hpp"

namespace pipetrain {

struct TrainJob;

// The sustained speeds of every device.
struct DeviceSpeed {
  double flops = 0;           // per second, of matrix products and attention
  double memory_bytes = 0;    // that a run may take
  double memory_rate = 0;     // bytes per second, for norm and optimizer
  double link_rate = 0;       // bytes per second from one device to another of its host
  double latency = 0;         // seconds of a message
  double block_overhead = 0;  // seconds of each pass of a block, whatever its size
  double host_link_rate = 0;  // bytes per second to a device of another host, while all of a host's devices send
  double host_latency = 0;
  double fp8_flops = 0;        // per second, of matrix products in 8 bits
  double offload_rate = 50e9;  // bytes per second rate between a device and its host's memory, each way
};

// Factors of the times of one kind of block, relative to the devices' speeds.
struct BlockScale {
  double forward = 1, input_grad = 1, weight_grad = 1;
};

// The progress of a search.
struct SearchProgress {
  std::int64_t bounded = 0;    // layouts whose lower bound is known
  std::int64_t simulated = 0;  // those of them that were simulated
};

struct LayoutRequest {
  ModelConfig config;
  int devices = 1;
  int hosts = 1;  // each with the same number of devices, which it must divide
  int most_tp = 8;
  int cp = 1;  // ranks that share each sequence, in all layouts; 2 cp must divide the sequence
  std::int64_t sequence = 1;
  std::int64_t global_batch = 1;  // sequences of one step
  DeviceSpeed speed;
  std::array<BlockScale, block_kinds> scales = {};  // by BlockKind; see profiled_scales()
  Precision precision;
  DeviceKind device = DeviceKind::cpu;
  OptimizerSettings optimizer;
  // In layouts with several replicas. Those that its hosts do not divide compress all that travels.
  Compression compression;
  std::optional<Recompute> recompute;            // no value: the least that fits
  std::optional<std::int64_t> recompute_layers;  // of each chunk, with `recompute`
  std::optional<int> zero;                       // of layouts with several replicas; no value: the fastest stage that fits
  // Steps begin before the previous verdict: without zero and offload, on one host, and without a search of cuts or the solver.
  bool post_validation = false;
  // All layouts offload the optimizer, parameters and gradients as set. Layouts that do not fit otherwise offload the best
  // fraction of activations.
  Offload offload;
  std::optional<int> pp;                 // of all layouts; no value: any
  Cut cut;                               // of all layouts, which must have this many virtual stages; empty: by cost
  std::optional<CutLimits> search_cuts;  // also tries other cuts, orders and placements for the sizes of the fastest layouts
  bool with_auto = false;                // also tries plans that auto makes for the costs and the memory
  double solver_seconds = 0;  // also tries plans that the solver finds for the fastest layouts, in this time for each
  std::function<void(const SearchProgress&)> progress = {};  // called for each layout; may be empty
};

struct Layout {
  int pp = 1, tp = 1, dp = 1, chunks = 1;
  std::int64_t microbatch = 1, microbatches = 1;
  std::string schedule{};
  Recompute recompute = Recompute::none;
  Zero zero{};
  std::optional<std::int64_t> recompute_layers = {};  // of each chunk; no value: all
  std::shared_ptr<const schedules::Plan> plan{};      // of auto and the solver: the compute of a step
  double offloaded_activations = 0;                   // fraction, see schedules::offload_activations()
  Cut cut = {};                                       // empty: by cost
  int cp = 1, ep = 1;                                 // ep: of dp

  int copies() const { return dp * cp; }  // of the weights
  Compression compression(const LayoutRequest& request) const;
  int expert_copies() const { return copies() / ep; }  // of the experts' weights
  bool braids() const;                                 // see schedules::ScheduleInfo
  Numerics numerics(const Precision& precision) const {
    return {.precision = precision, .recompute = recompute, .recompute_layers = recompute_layers};
  }
};

struct RankedLayout {
  Layout layout;
  double seconds = 0;  // of one step; with post-validation, of one of several consecutive steps
  double bubble = 0;
  std::vector<std::size_t> memory;  // by stage: bytes of each of its devices
  std::optional<double> gap = {};   // of the solver's plan: how much shorter its compute could be at most, as a fraction
  // For a cut that was searched: the seconds of the same layout with the cut by cost, if that fits; and how much
  // shorter any cut and order of these sizes, chunks and recomputation could make the step at most, as a fraction.
  std::optional<double> seconds_by_cost = {}, cut_gap = {};
};

struct SearchResult {
  std::vector<RankedLayout> best;  // the fastest first
  std::int64_t candidates = 0;     // considered
  std::int64_t too_large = 0;      // those of them known not to fit the memory
  std::int64_t too_long = 0;       // those that would take too long to simulate
  std::int64_t cuts_tried = 0;     // where cuts are searched
  bool cuts_left_out = false;      // a limit ended that search
  std::int64_t auto_left_out = 0;  // the least promising layouts, for whose plans auto had no time
};

// Returns the request for the job's own layout, and this layout with the job's plan; speeds stay open. sequence: tokens.
LayoutRequest request_of(const TrainJob& job, std::int64_t sequence);
Layout layout_of(const TrainJob& job, const schedules::Plan& plan);

// Returns the features of all layouts of the request, and of the search itself.
UsedFeatures features_of(const LayoutRequest& request);

// Returns the `count` fastest of all pp x cp x tp x dp x chunks x microbatch x schedule x recompute that use every
// device and fit its memory, with tensor-parallel ranks on one host; where only full recomputation fits, with as few
// layers of it as fit (except in plans of auto). For the search of cuts, see CutLayouts. A bound on the time avoids
// simulations of layouts that cannot be among them. Throws Error(input) when the batch or the model suits no layout, or
// none that can be simulated in seconds, and for features that do not work together.
SearchResult search_layouts(const LayoutRequest& request, int count);

}  // namespace pipetrain
