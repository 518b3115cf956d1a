// The fastest ways to lay a model over devices, by simulating each under a model of what the devices can do.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/features.hpp"
#include "core/device_kind.hpp"
#include "core/dtype.hpp"
#include "model/config/config.hpp"
#include "model/config/cut.hpp"
#include "model/config/numerics.hpp"
#include "model/config/offload.hpp"
#include "model/config/zero.hpp"
#include "model/optimizer/optimizer_settings.hpp"
#include "schedules/plan/plan.hpp"
#include "tuning/cut_search.hpp"

namespace pipetrain {

// What every device sustains.
struct DeviceSpeed {
  double flops = 0;           // per second, of matrix products and attention
  double memory_bytes = 0;    // what a run may take
  double memory_rate = 0;     // bytes per second, for norm and optimizer
  double link_rate = 0;       // bytes per second from one device to another of its host
  double latency = 0;         // seconds of a message
  double block_overhead = 0;  // seconds that each pass of a block takes whatever its size
  double host_link_rate = 0;  // the same to a device of another host, all of a host's at work at once
  double host_latency = 0;
  double fp8_flops = 0;        // per second, of matrix products in 8 bits
  double offload_rate = 50e9;  // bytes per second between a device and its host's memory, each way
};

// What blocks of one kind take, of what the numbers of the devices say.
struct BlockScale {
  double forward = 1, input_grad = 1, weight_grad = 1;
};

// How far a search has come.
struct SearchProgress {
  std::int64_t bounded = 0;    // layouts of which it is known how fast they could be at most
  std::int64_t simulated = 0;  // of them
};

struct LayoutRequest {
  ModelConfig config;
  int devices = 1;
  int hosts = 1;  // with as many of the devices each: a divisor of them
  int most_tp = 8;
  int cp = 1;  // ranks that share each sequence, of all layouts; 2 cp divides the sequence
  std::int64_t sequence = 1;
  std::int64_t global_batch = 1;  // sequences of one step
  DeviceSpeed speed;
  std::array<BlockScale, 4> scales = {};  // by BlockKind; see profiled_scales()
  Precision precision;
  DeviceKind device = DeviceKind::cpu;
  OptimizerSettings optimizer;
  std::optional<Recompute> recompute;            // not given: the least that fits
  std::optional<std::int64_t> recompute_layers;  // of each chunk; of a kind that is given
  std::optional<int> zero;                       // of layouts with several replicas; not given: the fastest stage that fits
  bool post_validation = false;  // steps begin before the verdict on the one before: without zero and offload, on one host, and
                                 // without a search of cuts or the solver
  Offload offload;  // optimizer, parameters, gradients: of all layouts; activations: of those that do not fit without, by the
                    // fraction that is best
  std::optional<int> pp;                 // of all layouts; not given: any
  Cut cut;                               // of all layouts, which have so many virtual stages; empty: by cost
  std::optional<CutLimits> search_cuts;  // also other cuts, orders and placements for the sizes of the fastest layouts
  bool with_auto = false;                // also plans that auto makes for the costs and the memory
  double solver_seconds = 0;             // of the fastest layouts also the plans that the solver finds, in this time for each
  std::function<void(const SearchProgress&)> progress = {};  // called for each layout; may be empty
};

struct Layout {
  int pp = 1, tp = 1, dp = 1, chunks = 1;
  std::int64_t microbatch = 1, microbatches = 1;
  std::string schedule{};
  Recompute recompute = Recompute::none;
  Zero zero{};
  std::optional<std::int64_t> recompute_layers = {};  // of each chunk; else all
  std::shared_ptr<const schedules::Plan> plan{};      // of auto and the solver: the compute of a step
  double offloaded_activations = 0;                   // fraction, see schedules::offload_activations()
  Cut cut = {};                                       // empty: by cost
  int cp = 1;

  int copies() const { return dp * cp; }  // of the weights
  bool braids() const;                    // see schedules::ScheduleInfo
  Numerics numerics(const Precision& precision) const {
    return {.precision = precision, .recompute = recompute, .recompute_layers = recompute_layers};
  }
};

struct RankedLayout {
  Layout layout;
  double seconds = 0;  // of one step; with post-validation of one of several that follow each other
  double bubble = 0;
  std::vector<std::size_t> memory;  // per stage: bytes of each of its devices
  std::optional<double> gap = {};   // of the solver's plan: how much shorter its compute could be at most, of its time
  // Of a cut that was searched: the same layout's step where it is cut by cost, unless that does not fit; and how much shorter
  // any cut and order of these sizes, chunks and recomputation could make the step at most, of its time.
  std::optional<double> seconds_by_cost = {}, cut_gap = {};
};

struct SearchResult {
  std::vector<RankedLayout> best;  // the fastest first
  std::int64_t candidates = 0;     // looked at
  std::int64_t too_large = 0;      // of them, those known not to fit the memory
  std::int64_t too_long = 0;       // and those that would take too long to simulate
  std::int64_t cuts_tried = 0;     // where cuts are searched
  bool cuts_left_out = false;      // whether a limit ended that search
  std::int64_t auto_left_out = 0;  // and those of auto beyond the time for its plans, which the most promising got
};

// The features of all layouts of the request, and of the search itself.
UsedFeatures features_of(const LayoutRequest& request);

// The `count` fastest of all pp x cp x tp x dp x chunks x microbatch x schedule x recompute that use every device and fit its
// memory, with tensor-parallel ranks on one host; where only full recomputation fits, with as few layers of it as fit (but in
// plans of auto). Where cuts are searched, see CutLayouts. A bound on the time spares simulating what cannot be among them.
// Throws Error(input) when the batch or the model goes with no layout at all, or with none that can be
// simulated in seconds, and for features that do not work together.
SearchResult search_layouts(const LayoutRequest& request, int count);

}  // namespace pipetrain
