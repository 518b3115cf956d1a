#include "actors/training/records/profile_layout.hpp"

#include <algorithm>

#include "actors/training/rank/stage_memory.hpp"
#include "actors/training/records/block_times.hpp"
#include "core/error.hpp"
#include "model/config/recompute_layers.hpp"
#include "model/costs.hpp"
#include "schedules/simulate/median.hpp"

namespace pipetrain {

using schedules::Placement;

namespace {

using Parts = std::vector<std::vector<Block>>;  // [virtual stage]

KindsOfParts kinds_of(const Parts& parts, const Numerics& numerics) {
  KindsOfParts all;
  for (const auto& part : parts) {
    const std::vector<Recompute> again = recompute_of_blocks(part, numerics);
    auto& row = all.emplace_back();
    for (std::size_t i = 0; i < part.size(); ++i)
      row.push_back(static_cast<std::size_t>(part[i].kind) + (again[i] == numerics.recompute ? 0 : block_kinds));
  }
  return all;
}

// FLOPs of a block of each kind in F, I and W.
struct Flops {
  ByKind forward{}, input_grad{}, weight_grad{};
};

Flops flops_of(const ModelConfig& config, std::int64_t sequence, const Numerics& numerics) {
  Flops flops;
  for (const BlockCount& counted : block_counts(config)) {
    const Block& block = counted.block;
    const double all = block_flops_per_token(config, block, sequence), products = block_flops_per_token(config, block, 0);
    const double weight_grad = block_weight_grad_flops_per_token(config, block);  // attention scores have no weights
    const double forward = (products - weight_grad) / 2 + (all - products) / 3;
    for (const bool is_lighter : {false, true}) {
      const std::size_t k = static_cast<std::size_t>(block.kind) + (is_lighter ? block_kinds : 0);
      const Recompute recompute = is_lighter ? lighter(numerics.recompute) : numerics.recompute;
      flops.forward[k] = forward;
      flops.weight_grad[k] = weight_grad;
      flops.input_grad[k] = all - forward - weight_grad +
                            block_recompute_flops_per_token(config, block, sequence, recompute, numerics.loss_chunks);
    }
  }
  return flops;
}

Parts measured_parts(const Profile& measured, const ModelConfig& config, const Numerics& numerics) {
  const int parts = measured.placement().virtual_stages();
  if (measured.cut.empty()) return partition_blocks(config, parts, measured.sequence, numerics);
  try {
    return cut_blocks(config, measured.cut, parts);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, std::string("the profile's ") + error.what() + "; write the profile anew");
  }
}

class Relayout {
 public:
  Relayout(const Profile& measured, const Placement& placement, bool split, const Cut& cut)
      : measured_(measured), result_(measured), from_(measured.placement()), to_(placement), split_(split) {
    config_ = measured.measured_model();
    const Numerics& numerics = measured.settings.numerics;
    parts_ = measured_parts(measured, config_, numerics);
    new_parts_ = cut.empty() ? partition_blocks(config_, to_.virtual_stages(), measured.sequence, numerics)
                             : cut_blocks(config_, cut, to_.virtual_stages());
    kinds_ = kinds_of(parts_, numerics);
    new_kinds_ = kinds_of(new_parts_, numerics);
    flops_ = flops_of(config_, measured.sequence, numerics);
  }

  Profile result() && {
    result_.pp = to_.stages();
    result_.chunks = to_.chunks();
    result_.cut = cut_of(new_parts_);
    result_.v_shape = to_ != Placement::looping(to_.stages(), to_.chunks());
    result_.stages.assign(static_cast<std::size_t>(to_.stages()), {});
    for (StageProfile& stage : result_.stages) stage.chunks.resize(static_cast<std::size_t>(to_.chunks()));
    set_compute();
    set_ends();
    set_bytes();
    set_messages();
    return std::move(result_);
  }

  std::array<MeasuredBlock, block_kinds> blocks() const {
    const Compute compute = measured_compute();
    std::array<MeasuredBlock, block_kinds> blocks{};
    for (const BlockCount& counted : block_counts(config_)) {
      const auto k = static_cast<std::size_t>(counted.block.kind);
      const auto mean = [&](const BlockTimes& times) {
        const double seconds = times.mean(kinds_, k);
        // Where only some layers recompute, embedding and head are of the second kind.
        return seconds > 0 ? seconds : times.mean(kinds_, k + block_kinds);
      };
      const double part = Compute::weight_part(flops_, k), whole = mean(compute.backwards);
      blocks[k] = {mean(compute.forwards), compute.was_split ? mean(compute.inputs) : whole * (1 - part),
                   compute.was_split ? mean(compute.weights) : whole * part};
    }
    return blocks;
  }

 private:
  // The times of all blocks. If the run measured whole backwards, the halves are zero.
  struct Compute {
    bool was_split;
    BlockTimes forwards, backwards, inputs, weights;

    // Returns the share of W in the FLOPs of a backward of this kind of block.
    static double weight_part(const Flops& flops, std::size_t kind) {
      return flops.weight_grad[kind] / (flops.input_grad[kind] + flops.weight_grad[kind]);
    }
  };
  const ChunkProfile& old_chunk(int v) const {
    const auto at = from_.at(v);
    return measured_.stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
  }
  ChunkProfile& new_chunk(int v) {
    const auto at = to_.at(v);
    return result_.stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
  }

  template <class Value>
  BlockTimes times(const Value& value, const ByKind& shares) const {
    std::vector<double> seconds;
    for (int v = 0; v < from_.virtual_stages(); ++v) seconds.push_back(value(old_chunk(v)));
    return {kinds_, seconds, shares};
  }

  // work(virtual stage, its first block, the kinds of its blocks)
  template <class Work>
  void each_new_part(const Work& work) const {
    std::size_t first = 0;
    for (std::size_t v = 0; v < new_parts_.size(); ++v) {
      work(static_cast<int>(v), first, new_kinds_[v]);
      first += new_parts_[v].size();
    }
  }

  Compute measured_compute() const {
    ByKind backward{};
    for (std::size_t k = 0; k < kinds_of_blocks; ++k) backward[k] = flops_.input_grad[k] + flops_.weight_grad[k];
    const bool was_split = measured_.splits_backward();
    const auto whole = [&](const ChunkProfile& chunk) {
      return was_split ? chunk.input_grad + chunk.weight_grad : chunk.backward;
    };
    return {was_split, times([](const ChunkProfile& chunk) { return chunk.forward; }, flops_.forward), times(whole, backward),
            times([](const ChunkProfile& chunk) { return chunk.input_grad; }, flops_.input_grad),
            times([](const ChunkProfile& chunk) { return chunk.weight_grad; }, flops_.weight_grad)};
  }

  void set_compute() {
    const Compute compute = measured_compute();
    each_new_part([&](int v, std::size_t first, const std::vector<std::size_t>& blocks) {
      ChunkProfile& chunk = new_chunk(v);
      chunk.forward = compute.forwards.sum(first, blocks);
      if (!split_) {
        chunk.backward = compute.backwards.sum(first, blocks);
      } else if (compute.was_split) {
        chunk.input_grad = compute.inputs.sum(first, blocks);
        chunk.weight_grad = compute.weights.sum(first, blocks);
      } else {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          const std::size_t k = blocks[i];
          const double seconds = compute.backwards.of(first + i, k), part = Compute::weight_part(flops_, k);
          chunk.weight_grad += seconds * part;
          chunk.input_grad += seconds * (1 - part);
        }
      }
    });
  }

  double trained(const std::vector<Block>& blocks) const {
    double sum = 0;
    for (const Block& block : blocks) sum += static_cast<double>(trained_parameter_count(config_, block));
    return sum;
  }

  // The ends of a step take time in proportion to a part's trained parameters: the measured sum over the whole model is divided
  // among them.
  void set_ends() {
    const auto all = static_cast<double>(trained_parameter_count(config_));
    ChunkProfile sums;
    double norm = 0, optimizer = 0, tied = 0;
    for (int v = 0; v < from_.virtual_stages(); ++v) {
      sums.reduce_grads += old_chunk(v).reduce_grads;
      sums.sum_replicated += old_chunk(v).sum_replicated;
      tied = std::max(tied, old_chunk(v).sum_tied);
    }
    for (const StageProfile& stage : measured_.stages) norm += stage.norm, optimizer += stage.optimizer;
    for (int v = 0; v < to_.virtual_stages(); ++v) {
      const double part = trained(new_parts_[static_cast<std::size_t>(v)]) / all;
      StageProfile& stage = result_.stages[static_cast<std::size_t>(to_.at(v).stage)];
      new_chunk(v).reduce_grads = sums.reduce_grads * part;
      new_chunk(v).sum_replicated = sums.sum_replicated * part;
      stage.norm += norm * part;
      stage.optimizer += optimizer * part;
    }
    if (!measured_.tied) return;
    for (const schedules::StageChunk at : tied_sum_places(to_))
      new_chunk(to_.virtual_stage(at.stage, at.chunk)).sum_tied = tied;
  }

  void set_bytes() {
    if (!measured_.has_settings) return;  // an earlier build's profile, whose settings are not known
    RunSettings run = measured_.settings;
    run.layout.tp = measured_.tp;
    const StageMemory memory(config_, {measured_.microbatch, measured_.sequence / run.layout.cp}, run);
    for (int stage = 0; stage < to_.stages(); ++stage) {
      Parts chunks;
      for (int chunk = 0; chunk < to_.chunks(); ++chunk)
        chunks.push_back(new_parts_[static_cast<std::size_t>(to_.virtual_stage(stage, chunk))]);
      const auto bytes = memory.activations(chunks);
      for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk) {
        ChunkProfile& cell = result_.stages[static_cast<std::size_t>(stage)].chunks[chunk];
        cell.held_bytes = static_cast<double>(bytes[chunk].saved);
        cell.pending_bytes = static_cast<double>(bytes[chunk].pending);
      }
    }
  }

  void set_messages() {
    std::vector<double> known;
    for (int v = 0; v + 1 < from_.virtual_stages(); ++v)
      if (from_.at(v).stage != from_.at(v + 1).stage) known.push_back(measured_.p2p[static_cast<std::size_t>(v)]);
    const double usual = known.empty() ? 0 : schedules::median_of(std::move(known));
    result_.p2p.clear();
    for (int v = 0; v + 1 < to_.virtual_stages(); ++v)
      result_.p2p.push_back(to_.at(v).stage == to_.at(v + 1).stage ? 0 : usual);
  }

  const Profile& measured_;
  Profile result_;
  Placement from_, to_;
  bool split_;
  ModelConfig config_;
  Parts parts_, new_parts_;
  KindsOfParts kinds_, new_kinds_;
  Flops flops_;
};

}  // namespace

Profile profile_for(const Profile& measured, const Placement& placement, bool split, const Cut& cut) {
  return Relayout(measured, placement, split, cut).result();
}

Profile with_recompute(const Profile& measured, Recompute recompute) {
  const ModelConfig config = measured.measured_model();
  const Numerics& now = measured.settings.numerics;
  Numerics next = now;
  next.recompute = recompute;
  next.recompute_layers.reset();
  const Parts parts = measured_parts(measured, config, now);
  const KindsOfParts kinds = kinds_of(parts, now), next_kinds = kinds_of(parts, next);
  const Flops flops = flops_of(config, measured.sequence, now), next_flops = flops_of(config, measured.sequence, next);
  Profile result = measured;
  result.settings.numerics = next;
  result.cut = cut_of(parts);
  const Placement placement = measured.placement();
  for (std::size_t v = 0; v < parts.size(); ++v) {
    double input = 0, next_input = 0, weight = 0;
    for (std::size_t i = 0; i < parts[v].size(); ++i) {
      input += flops.input_grad[kinds[v][i]];
      next_input += next_flops.input_grad[next_kinds[v][i]];
      weight += flops.weight_grad[kinds[v][i]];
    }
    const auto at = placement.at(static_cast<int>(v));
    ChunkProfile& chunk = result.stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
    chunk.input_grad *= next_input / input;
    chunk.backward *= (next_input + weight) / (input + weight);
  }
  return result;
}

std::array<MeasuredBlock, block_kinds> measured_blocks(const Profile& measured) {
  return Relayout(measured, measured.placement(), true, measured.cut).blocks();
}

bool splits_backward(const schedules::Plan& plan) {
  const auto& list = plan.stages.front();
  return std::any_of(list.begin(), list.end(),
                     [](const auto& action) { return action.kind == schedules::ActionKind::weight_grad; });
}

}  // namespace pipetrain
