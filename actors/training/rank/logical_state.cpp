#include "actors/training/rank/logical_state.hpp"

#include <map>
#include <utility>

#include "actors/training/job/train_job.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "model/parameters/parameter_groups.hpp"
#include "model/weights/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

// Host memory for tensors that are requested before they are copied.
constexpr std::size_t most_bytes_ahead = std::size_t{64} << 20;

// Returns the parts of the parameters that one replica of the rank saves; the first replica saves all frozen ones.
std::vector<HeldPart> held_by_groups(const ParameterLayout& whole, const ReplicaPlace& place) {
  std::vector<HeldPart> all;
  for (const GroupLayout& group : group_layouts(whole)) {
    const bool trained = is_trained(group.group);
    if (!trained && place.replica > 0) continue;
    const auto held = trained ? held_parts(group.layout, shard_units(group.layout, place.replicas), place.replica)
                              : whole_parameters(group.layout);
    for (HeldPart part : held) {
      part.parameter = group.parameters[part.parameter];
      all.push_back(part);
    }
  }
  return all;
}

}  // namespace

LogicalState::LogicalState(Pipeline& pipeline, const ParallelLayout& layout, const TrainJob& job) : pipeline_(pipeline) {
  std::map<std::string, std::vector<Slice>> slices;
  const auto& shape = layout.mesh().shape();
  const int replicas = place_among(job.zero, weight_copies(shape), 0).replicas;
  for (int stage = 0; stage < shape.pp; ++stage) {
    for (int tp_rank = 0; tp_rank < shape.tp; ++tp_rank) {
      const ParameterLayout own = layout_parameters(job.config, layout.chunks_of(stage), tp_rank, shape.tp);
      std::vector<std::vector<Piece>> pieces(own.parameters.size());
      for (int replica = 0; replica < replicas; ++replica) {
        const MeshCoordinate at{.dp = replica / shape.cp, .pp = stage, .cp = replica % shape.cp, .tp = tp_rank};
        const auto [part, rank_of_part] = layout.part_rank(at);
        for (const HeldPart& held : held_by_groups(own, {replicas, replica}))
          pieces[held.parameter].push_back({{at.dp, stage, part}, rank_of_part, held.begin, held.end});
      }
      for (std::size_t number = 0; number < own.parameters.size(); ++number) {
        const Parameter& parameter = own.parameters[number];
        if (!is_kept_elsewhere(parameter, tp_rank))
          slices[parameter.name].push_back({number, parameter, std::move(pieces[number])});
      }
    }
  }
  for (const auto& tensor : logical_tensors(job.config)) slices_.push_back(slices.at(tensor.name));
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
