#include "apps/tune_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "actors/training/stage_memory.hpp"
#include "actors/training/transformer_compute.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"
#include "schedules/builders.hpp"
#include "schedules/simulate.hpp"

namespace pipetrain {

namespace {

using schedules::Placement;
using schedules::Plan;
using schedules::ScheduleInfo;

constexpr double element_bytes = sizeof(float);            // of activations, gradients and weights on the wire
constexpr double state_bytes = 4.0 * sizeof(float);        // weights, gradients and AdamW's moments
constexpr double optimizer_traffic = 7.0 * sizeof(float);  // reads the four, writes three

// Seconds of one virtual stage for one microbatch, and what it holds for good.
struct PartCost {
  schedules::ChunkCost times;
  double parameters = 0;  // of one tensor-parallel rank
  double compute() const { return times.forward + times.input_grad + times.weight_grad; }
};

// A layout, and a time that no simulation of it can be below.
struct Candidate {
  Layout layout;
  const ScheduleInfo* schedule = nullptr;
  double bound = 0;
};

class Search {
 public:
  Search(const LayoutRequest& request, int count) : request_(request), count_(static_cast<std::size_t>(count)) {}

  SearchResult run() {
    for (int tp = 1; tp <= std::min(request_.most_tp, request_.devices); ++tp)
      if (request_.devices % tp == 0 && splits(tp))
        for (int pp = 1; pp <= request_.devices / tp; ++pp)
          if (request_.devices / tp % pp == 0) add_batches(pp, tp, request_.devices / tp / pp);
    if (result_.candidates == 0)
      throw Error(ErrorKind::input,
                  fmt::format("--devices {}: no pp x tp x dp takes them all with this model and --global-batch {}; use another "
                              "number of devices or a batch that more of them divide",
                              request_.devices, request_.global_batch));
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (const Candidate& candidate : candidates_) {
      if (result_.best.size() == count_ && candidate.bound >= result_.best.back().seconds) break;
      judge(candidate);
    }
    return std::move(result_);
  }

 private:
  bool splits(int tp) const {
    const ModelConfig& config = request_.config;
    return config.heads % tp == 0 && config.kv_heads % tp == 0 && config.intermediate % tp == 0;
  }

  void add_batches(int pp, int tp, int dp) {
    if (request_.global_batch % dp != 0) return;
    const std::int64_t sequences = request_.global_batch / dp;  // of one replica
    for (std::int64_t microbatch = 1; microbatch <= sequences; microbatch *= 2)
      if (sequences % microbatch == 0) add_schedules({pp, tp, dp, 1, microbatch, sequences / microbatch, ""});
  }

  void add_schedules(Layout layout) {
    for (const ScheduleInfo& info : schedules::all_schedules()) {
      if (info.uses_costs || (layout.pp == 1 && info.name != "1f1b")) continue;
      layout.schedule = info.name;
      layout.chunks = info.default_chunks;
      add(layout, info);
      for (int chunks = 2 * info.default_chunks; info.chunks_can_vary && chunks <= 8; chunks *= 2) {
        layout.chunks = chunks;
        add(layout, info);
      }
    }
  }

  void add(const Layout& layout, const ScheduleInfo& info) {
    const int parts = layout.pp * layout.chunks;
    if (parts > 2 * request_.config.layers) return;
    ++result_.candidates;
    const auto& costs = part_costs(layout);
    const Placement placement = placement_of(layout, info);
    double bound = 0;
    for (int stage = 0; stage < layout.pp; ++stage) {
      double compute = 0, parameters = 0;
      for (int chunk = 0; chunk < layout.chunks; ++chunk) {
        const PartCost& part = costs[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
        compute += part.compute();
        parameters += part.parameters;
      }
      if (parameters * state_bytes > request_.speed.memory_bytes) {
        ++result_.too_large;
        return;
      }
      double first = 0;  // forwards before the stage's first
      for (int v = 0; v < placement.virtual_stage(stage, 0); ++v) first += costs[static_cast<std::size_t>(v)].times.forward;
      bound = std::max(bound, first + static_cast<double>(layout.microbatches) * compute + end_of_step(layout, parameters));
    }
    candidates_.push_back({layout, &info, bound});
  }

  static Placement placement_of(const Layout& layout, const ScheduleInfo& info) {
    return info.build({layout.pp, layout.chunks, 1}).placement;
  }

  // Least time from a stage's last compute to the step's end.
  double end_of_step(const Layout& layout, double parameters) const {
    return reduce_seconds(layout, parameters) + norm_seconds(parameters) + optimizer_seconds(parameters);
  }
  // A ring moves every gradient twice, less the own part.
  double reduce_seconds(const Layout& layout, double parameters) const {
    if (layout.dp == 1) return 0;
    const double share = 2.0 * (layout.dp - 1) / layout.dp;
    return share * parameters * element_bytes / request_.speed.link_rate + 2.0 * (layout.dp - 1) * request_.speed.latency;
  }
  double norm_seconds(double parameters) const { return parameters * element_bytes / request_.speed.memory_rate; }
  double optimizer_seconds(double parameters) const { return parameters * optimizer_traffic / request_.speed.memory_rate; }

  const std::vector<std::vector<Block>>& blocks_of_parts(int parts) {
    auto& found = partitions_[parts];
    if (found.empty()) found = partition_blocks(request_.config, parts, request_.sequence);
    return found;
  }

  // By virtual stage.
  const std::vector<PartCost>& part_costs(const Layout& layout) {
    auto& found = costs_[{layout.pp * layout.chunks, layout.tp, layout.microbatch}];
    if (found.empty())
      for (const auto& blocks : blocks_of_parts(layout.pp * layout.chunks)) found.push_back(cost_of(blocks, layout));
    return found;
  }

  // Products of activations and weights cost as much in F as in I and in W; attention between positions has no weights, and its
  // two halves of the backward are both in I. Each tensor-parallel block gathers and scatters its activations once in F and in
  // I.
  PartCost cost_of(const std::vector<Block>& blocks, const Layout& layout) const {
    const DeviceSpeed& speed = request_.speed;
    const ModelConfig& config = request_.config;
    const double tokens = static_cast<double>(layout.microbatch * request_.sequence), tp = layout.tp;
    const double activation = tokens * static_cast<double>(config.hidden) * element_bytes;
    const double exchange = layout.tp == 1 ? 0 : 2 * ((tp - 1) / tp * activation / speed.link_rate + (tp - 1) * speed.latency);
    PartCost part;
    part.times.forward = part.times.input_grad = part.times.weight_grad = 0;
    for (const Block& block : blocks) {
      const double flops = block_flops_per_token(config, block, request_.sequence) * tokens / tp;
      const double attention =
          block.kind != BlockKind::attention
              ? 0
              : 6.0 * static_cast<double>(config.heads * config.head_dim * request_.sequence) * tokens / tp;
      const double product = (flops - attention) / 3 / speed.flops, scores = attention / 3 / speed.flops;
      part.times.forward += product + scores + exchange + speed.block_overhead;
      part.times.input_grad += product + 2 * scores + exchange + speed.block_overhead;
      part.times.weight_grad += product + speed.block_overhead;
      part.parameters += static_cast<double>(block_parameter_count(config, block)) / tp;
    }
    return part;
  }

  schedules::Costs costs_of(const Layout& layout, const Placement& placement) {
    const auto& parts = part_costs(layout);
    const DeviceSpeed& speed = request_.speed;
    schedules::Costs costs;
    for (int stage = 0; stage < layout.pp; ++stage) {
      auto& row = costs.chunks.emplace_back();
      double parameters = 0;
      for (int chunk = 0; chunk < layout.chunks; ++chunk) {
        const int v = placement.virtual_stage(stage, chunk);
        const PartCost& part = parts[static_cast<std::size_t>(v)];
        parameters += part.parameters;
        row.push_back(part.times);
        row.back().reduce_grads = reduce_seconds(layout, part.parameters);
        if (layout.tp > 1) row.back().sum_replicated = 2.0 * (layout.tp - 1) * speed.latency;
        if (request_.config.tied_embeddings && (v == 0 || v + 1 == placement.virtual_stages()))
          row.back().sum_tied = speed.latency + static_cast<double>(request_.config.hidden * request_.config.vocabulary) *
                                                    element_bytes / layout.tp / speed.link_rate;
      }
      costs.norm.push_back(norm_seconds(parameters));
      costs.optimizer.push_back(optimizer_seconds(parameters));
    }
    const double bytes =
        static_cast<double>(layout.microbatch * request_.sequence * request_.config.hidden) * element_bytes / layout.tp;
    for (int v = 0; v + 1 < placement.virtual_stages(); ++v)
      costs.links.push_back(placement.at(v).stage == placement.at(v + 1).stage
                                ? schedules::Link{}
                                : schedules::Link{speed.latency, speed.link_rate, bytes});
    costs.verdict = 2 * speed.latency;
    return costs;
  }

  // Bytes of each device of every stage; nothing when one does not fit.
  std::optional<std::vector<std::size_t>> memory_of(const Layout& layout, const Plan& plan,
                                                    const std::vector<schedules::StageNeeds>& needs) {
    auto& memory = memories_[{layout.tp, layout.microbatch}];
    if (!memory)
      memory = std::make_unique<StageMemory>(request_.config, layout.tp, MicrobatchShape{layout.microbatch, request_.sequence});
    const auto& blocks = blocks_of_parts(layout.pp * layout.chunks);
    std::vector<std::size_t> bytes;
    for (int stage = 0; stage < layout.pp; ++stage) {
      std::vector<std::vector<Block>> chunks;
      for (int chunk = 0; chunk < layout.chunks; ++chunk)
        chunks.push_back(blocks[static_cast<std::size_t>(plan.placement.virtual_stage(stage, chunk))]);
      const auto use = memory->estimate(chunks, static_cast<int>(layout.microbatches), needs[static_cast<std::size_t>(stage)]);
      bytes.push_back(use.total());
      if (static_cast<double>(bytes.back()) > request_.speed.memory_bytes) return std::nullopt;
    }
    return bytes;
  }

  void judge(const Candidate& candidate) {
    const Layout& layout = candidate.layout;
    const schedules::EndOfStep end{layout.dp > 1, layout.tp > 1, request_.config.tied_embeddings};
    const Plan plan =
        with_end_of_step(candidate.schedule->build({layout.pp, layout.chunks, static_cast<int>(layout.microbatches)}), end);
    const auto needs = validate(plan, schedules::Order::planned, TransformerCompute::slot_life());
    auto memory = memory_of(layout, plan, needs);
    if (!memory) {
      ++result_.too_large;
      return;
    }
    schedules::SimulationOptions how;
    how.life = TransformerCompute::slot_life();
    const auto summary = summarize(schedules::simulate(plan, costs_of(layout, plan.placement), needs, how));
    auto& best = result_.best;
    const auto place = std::upper_bound(best.begin(), best.end(), summary.makespan,
                                        [](double seconds, const RankedLayout& other) { return seconds < other.seconds; });
    best.insert(place, {layout, summary.makespan, summary.bubble_fraction, std::move(*memory)});
    if (best.size() > count_) best.pop_back();
  }

  const LayoutRequest& request_;
  std::size_t count_;
  std::vector<Candidate> candidates_;
  SearchResult result_;
  std::map<int, std::vector<std::vector<Block>>> partitions_;
  std::map<std::tuple<int, int, std::int64_t>, std::vector<PartCost>> costs_;
  std::map<std::pair<int, std::int64_t>, std::unique_ptr<StageMemory>> memories_;
};

}  // namespace

SearchResult search_layouts(const LayoutRequest& request, int count) { return Search(request, count).run(); }

}  // namespace pipetrain
