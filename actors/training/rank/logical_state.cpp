#include "actors/training/rank/logical_state.hpp"

#include <map>

#include "actors/training/job/train_job.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "model/parameters/parameter_groups.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

// Host memory for tensors that are requested before they are copied.
constexpr std::size_t most_bytes_ahead = std::size_t{64} << 20;

// Returns the parts of a group's parameters, by index in the whole layout, that one of the ranks with the same weights saves.
// The first one saves all frozen parameters.
std::vector<HeldPart> held_in_group(const GroupLayout& group, const ReplicaPlace& place) {
  const bool trained = is_trained(group.group);
  if (!trained && place.replica > 0) return {};
  std::vector<HeldPart> parts =
      trained ? held_parts(group.layout, place.units(group.layout), place.replica) : whole_parameters(group.layout);
  for (HeldPart& part : parts) part.parameter = group.parameters[part.parameter];
  return parts;
}

}  // namespace

LogicalState::LogicalState(Pipeline& pipeline, const ParallelLayout& layout, const TrainJob& job) : pipeline_(pipeline) {
  std::map<std::string, std::vector<Slice>> slices;
  const MeshShape& shape = layout.mesh().shape();
  for (int stage = 0; stage < shape.pp; ++stage) {
    for (int tp_rank = 0; tp_rank < shape.tp; ++tp_rank) {
      for (int ep_rank = 0; ep_rank < shape.ep; ++ep_rank) {
        const ParameterLayout own =
            layout_parameters(job.config, layout.chunks_of(stage), tp_rank, shape.tp, {ep_rank, shape.ep});
        const auto pieces = pieces_of(layout, job, own, {.pp = stage, .ep = ep_rank, .tp = tp_rank});
        for (std::size_t number = 0; number < own.parameters.size(); ++number) {
          const Parameter& parameter = own.parameters[number];
          if (!is_kept_elsewhere(parameter, tp_rank) && (parameter.expert >= 0 || ep_rank == 0))
            slices[parameter.name].push_back({number, parameter, pieces[number]});
        }
      }
    }
  }
  for (const auto& tensor : logical_tensors(job.config)) slices_.push_back(slices.at(tensor.name));
}

// All parts of the experts have the other parameters at the same indices.
std::vector<std::vector<LogicalState::Piece>> LogicalState::pieces_of(const ParallelLayout& layout, const TrainJob& job,
                                                                      const ParameterLayout& own, const MeshCoordinate& rank) {
  const MeshShape& shape = layout.mesh().shape();
  std::vector<std::vector<Piece>> pieces(own.parameters.size());
  for (const GroupLayout& group : group_layouts(own)) {
    const bool experts = group.group == ParameterGroup::expert;
    ReplicaPlace place = place_among(job.zero, job.optimizer, experts ? expert_copies(shape) : weight_copies(shape), 0);
    for (int replica = 0; replica < place.replicas; ++replica) {
      place.replica = replica;
      MeshCoordinate at = at_weight_copy(experts ? replica * shape.ep : replica, shape);
      at.pp = rank.pp;
      at.tp = rank.tp;
      for (const HeldPart& held : held_in_group(group, place)) {
        MeshCoordinate holder = at;
        if (own.parameters[held.parameter].expert >= 0) holder.ep = rank.ep;
        const auto [part, rank_of_part] = layout.part_rank(holder);
        pieces[held.parameter].push_back({{at.dp, rank.pp, part}, rank_of_part, held.begin, held.end});
      }
    }
  }
  return pieces;
}

LogicalState::~LogicalState() { forget(); }

void LogicalState::copy(const std::string& state, std::size_t index, float* full) {
  if (!asked_.empty() && (asked_.front().state != state || asked_.front().index != index)) forget();
  std::size_t next = asked_.empty() ? index : asked_.back().index + 1;
  while (asked_.empty() || (next < slices_.size() && asked_bytes_ < most_bytes_ahead)) ask(state, next++);
  Asked& first = asked_.front();
  for (std::size_t i = 0; i < first.slices.size(); ++i) {
    for (auto& done : first.slices[i].done) done.get();
    write_slice(slices_[index][i].parameter, first.slices[i].slice.data(), full);
  }
  asked_bytes_ -= first.bytes;
  asked_.pop_front();
}

void LogicalState::ask(const std::string& state, std::size_t index) {
  Asked& tensor = asked_.emplace_back();
  tensor.state = state;
  tensor.index = index;
  for (const Slice& slice : slices_[index]) {
    Reading& reading = tensor.slices.emplace_back();
    reading.slice.resize(static_cast<std::size_t>(slice.parameter.local.elements()));
    for (const Piece& piece : slice.pieces) {
      const StatePart part{piece.rank, state, slice.number, piece.begin, piece.end - piece.begin};
      reading.done.push_back(pipeline_.read_state(piece.stage, part, reading.slice.data() + piece.begin));
    }
    tensor.bytes += reading.slice.size() * sizeof(float);
  }
  asked_bytes_ += tensor.bytes;
}

// The parts must not be freed while anybody may write to them.
void LogicalState::forget() {
  for (auto& tensor : asked_) {
    for (auto& reading : tensor.slices) {
      for (auto& done : reading.done) {
        if (done.valid()) done.wait();
      }
    }
  }
  asked_.clear();
  asked_bytes_ = 0;
}

}  // namespace pipetrain
