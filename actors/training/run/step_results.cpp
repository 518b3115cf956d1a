#include "actors/training/run/step_results.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <utility>

#include "actors/training/places/state_places.hpp"
#include "actors/training/rank/rank_reports.hpp"
#include "actors/training/run/trainer.hpp"
#include "model/config/routed_layers.hpp"
#include "model/parameters/parameter_groups.hpp"

namespace pipetrain {
namespace {

// The place of a rank among those that divide the state of each group.
struct GroupPlaces {
  ReplicaPlace dense, experts;
};

// Returns the parts in the order in which the rank reports them: RankState::square_sums().
std::vector<CountedPart> counted_by_group(const ParameterLayout& whole, int tp_rank, const GroupPlaces& places) {
  std::vector<CountedPart> counted;
  for (const GroupLayout& group : group_layouts(whole)) {
    const ReplicaPlace& place = group.group == ParameterGroup::expert ? places.experts : places.dense;
    if (!is_trained(group.group) || place.replica >= place.replicas) continue;  // another rank counts the same part
    const auto held = held_parts(group.layout, place.units(group.layout), place.replica);
    for (CountedPart part : counted_parts(group.layout, tp_rank, held)) {
      part.parameter = group.parameters[part.parameter];
      counted.push_back(part);
    }
  }
  return counted;
}

}  // namespace

StepResults::StepResults(const ParallelLayout& layout, const TrainJob& job)
    : slices_(job.layout.slices),
      further_(job.config.mtp.is_trained()),
      mesh_({.dp = layout.mesh().shape().dp, .pp = layout.mesh().shape().pp}),
      experts_(layout.mesh().shape().ep) {
  const auto& shape = layout.mesh().shape();
  const ReplicaPlace first = place_among(job.zero, job.optimizer, weight_copies(shape), 0);
  const ReplicaPlace first_expert = place_among(job.zero, job.optimizer, expert_copies(shape), 0);
  for (int i = 0; i < (first.replicas > 1 ? shape.dp : 1) * shape.pp; ++i) {
    const MeshCoordinate at = mesh_.at(i);
    const auto chunks = layout.chunks_of(at.pp);
    const bool has_head =
        std::any_of(chunks.begin(), chunks.end(), [](const auto& blocks) { return blocks.back().kind == BlockKind::head; });
    auto& ranks = stages_.emplace_back();
    for (int number = 0; number < stage_size(shape); ++number) {
      const int tp_rank = number % shape.tp;
      const MeshCoordinate own{.dp = at.dp, .cp = number / shape.tp / shape.ep, .ep = number / shape.tp % shape.ep};
      Rank& rank = ranks.emplace_back();
      rank.tp = tp_rank;
      rank.ep = own.ep;
      if (has_head) {
        rank.losses = static_cast<std::size_t>(job.batch.microbatches * job.layout.slices *
                                               losses_of_microbatch(job.config, job.batch.microbatch));
        rank.pieces = static_cast<std::size_t>(job.batch.microbatches * job.layout.slices);
        rank.samples = static_cast<std::size_t>(job.batch.microbatches * job.batch.microbatch);
        if (job.evaluation && job.config.classifies())
          rank.own_classes = static_cast<std::size_t>(RowSplit(job.config.outputs(), shape.tp).count(tp_rank));
      }
      rank.parameters = layout_parameters(job.config, chunks, tp_rank, shape.tp, {own.ep, shape.ep});
      rank.router_numbers = static_cast<std::size_t>(router_statistics(job.config));
      for (const auto& blocks : chunks)
        for (const Block& block : blocks)
          if (block.kind == BlockKind::experts) rank.routed.push_back(block.layer);
      GroupPlaces places{first, first_expert};
      places.dense.replica = weight_copy(own, shape);
      places.experts.replica = expert_copy(own, shape);
      rank.counted = counted_by_group(rank.parameters, tp_rank, places);
    }
  }
}

std::vector<std::size_t> StepResults::first_losses(const std::vector<Rank>& ranks, int ep, schedules::StepKind kind) {
  std::vector<std::size_t> begins;
  std::size_t begin = 0;
  for (const Rank& rank : ranks) {
    const bool evaluates = kind == schedules::StepKind::evaluation;
    if (rank.tp == 0 && rank.ep == ep) begins.push_back(begin + (evaluates ? rank.scores() : 0));
    begin += rank.losses + (evaluates ? rank.scores() : count_sums(rank.counted) + rank.statistics());
  }
  return begins;
}

// All ranks with the head that share a part of sequences report the same losses.
void StepResults::add_losses(const std::vector<StageResult>& results, schedules::StepKind kind, LossSums& sums) const {
  for (int number = 0; number < mesh_.size() * experts_; ++number) {
    const int stages = mesh_.shape().pp, replica = number / stages, i = replica / experts_ * stages + number % stages;
    const auto& ranks = stages_[static_cast<std::size_t>(i) % stages_.size()];  // the first replica's where all report alike
    const StageResult& result = results.at(static_cast<std::size_t>(i));
    const std::vector<std::size_t> begins = first_losses(ranks, replica % experts_, kind);
    for (std::size_t loss = 0; loss < ranks.front().losses; ++loss) {
      double& sum = further_ && loss % 2 == 1 ? sums.further : sums.own;
      for (const std::size_t begin : begins) sum += result.at(begin + loss);
    }
  }
}

std::vector<SequenceSums> StepResults::sequence_sums(const std::vector<StageResult>& results, schedules::StepKind kind) const {
  assert(experts_ == 1);  // preferences are not built for experts
  std::vector<SequenceSums> all;
  for (int i = 0; i < mesh_.size(); ++i) {
    const auto& ranks = stages_[static_cast<std::size_t>(i) % stages_.size()];
    const StageResult& result = results.at(static_cast<std::size_t>(i));
    const Rank& rank = ranks.front();
    if (rank.losses == 0) continue;
    const std::size_t begin = all.size(), slices = static_cast<std::size_t>(slices_);
    const std::size_t batch = rank.losses / 2 / rank.pieces;
    all.resize(begin + rank.pieces / slices * batch);
    for (std::size_t piece = 0; piece < rank.pieces; ++piece) {
      for (const std::size_t first : first_losses(ranks, 0, kind)) {
        for (std::size_t sequence = 0; sequence < batch; ++sequence) {
          SequenceSums& sums = all[begin + piece / slices * batch + sequence];
          const std::size_t at = first + 2 * (piece * batch + sequence);
          sums.completion += result.at(at);
          sums.context += result.at(at + 1);
        }
      }
    }
  }
  return all;
}

std::int64_t StepResults::class_said(const std::vector<StageResult>& results, int replica, std::int64_t sample) const {
  std::int64_t best = -1, number = 0;
  double most = 0;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(mesh_.shape().pp); ++stage) {
    const StageResult& result =
        results.at(static_cast<std::size_t>(mesh_.rank({.dp = replica / experts_, .pp = static_cast<int>(stage)})));
    for (const double score : scores_of(stages_[stage], replica % experts_, result, sample)) {
      if (best < 0 || score > most) {
        best = number;
        most = score;
      }
      ++number;
    }
  }
  return best;
}

// Ranks that lack the token whose output classifies the sample report zeros.
std::vector<double> StepResults::scores_of(const std::vector<Rank>& ranks, int ep, const StageResult& result,
                                           std::int64_t sample) {
  std::vector<double> scores;
  std::size_t begin = 0, first_class = 0;
  for (const Rank& rank : ranks) {
    if (rank.tp == 0) first_class = 0;
    scores.resize(std::max(scores.size(), first_class + rank.own_classes));
    for (std::size_t own = 0; own < rank.own_classes && rank.ep == ep; ++own)
      scores[first_class + own] += result.at(begin + static_cast<std::size_t>(sample) * rank.own_classes + own);
    first_class += rank.own_classes;
    begin += rank.scores() + rank.losses;
  }
  return scores;
}

double StepResults::grad_norm(const std::vector<StageResult>& results) const {
  std::vector<NormPart> parts;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const StageResult& result = results.at(stage);
    auto at = result.begin();
    for (const Rank& rank : stages_[stage]) {
      at += static_cast<std::ptrdiff_t>(rank.losses);
      const auto end = at + static_cast<std::ptrdiff_t>(count_sums(rank.counted));
      add_norm_parts(rank.parameters, rank.tp, rank.counted, {at, end}, parts);
      at = end + static_cast<std::ptrdiff_t>(rank.statistics());
    }
    assert(at == result.end());
  }
  return global_norm(std::move(parts));
}

// All tensor-parallel ranks report the same.
std::vector<RoutedLayer> StepResults::routed_layers(const std::vector<StageResult>& results) const {
  std::map<std::int64_t, RoutedLayer> layers;
  for (int i = 0; i < mesh_.size(); ++i) {
    auto at = results.at(static_cast<std::size_t>(i)).begin();
    for (const Rank& rank : stages_[static_cast<std::size_t>(i) % stages_.size()]) {
      at += static_cast<std::ptrdiff_t>(rank.losses + count_sums(rank.counted));
      for (const std::int64_t number : rank.routed) {
        const auto end = at + static_cast<std::ptrdiff_t>(rank.router_numbers);
        RoutedLayer& layer = layers[number];
        layer.layer = number;
        layer.loads.resize(rank.router_numbers - 3);
        if (rank.tp == 0) {
          std::transform(layer.loads.begin(), layer.loads.end(), at, layer.loads.begin(), std::plus<>());
          layer.balance += *(end - 3);
          layer.z += *(end - 2);
          layer.dropped += *(end - 1);
        }
        at = end;
      }
    }
  }
  std::vector<RoutedLayer> all;
  for (auto& [number, layer] : layers) all.push_back(std::move(layer));
  return all;
}

}  // namespace pipetrain
