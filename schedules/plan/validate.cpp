#include "schedules/plan/validate.hpp"

#include <algorithm>

#include "schedules/plan/check_lists.hpp"
#include "schedules/plan/plan_run.hpp"
#include "schedules/plan/residents.hpp"

namespace pipetrain::schedules {

namespace {

void check_life(const SlotLife& life) {
  if (!is_compute(life.activation) || !is_compute(life.gradient) || life.gradient == ActionKind::forward)
    throw std::invalid_argument("a slot is kept until F, B, I or W of its microbatch, a gradient's not until F");
}

// Computes the peaks of one stage's list: the device runs it in this order, so positions matter and times do not.
StageNeeds list_needs(const std::vector<Action>& actions, int chunks) {
  StageNeeds needs;
  needs.chunks.resize(static_cast<std::size_t>(chunks));
  Residents residents;
  std::vector<int> pending(needs.chunks.size());
  for (const Action& action : actions) {
    const auto c = static_cast<std::size_t>(action.chunk);
    ChunkNeeds& chunk = needs.chunks[c];
    residents.begin(action);
    chunk.peak_activations = std::max(chunk.peak_activations, residents.inside(action.chunk));
    chunk.peak_offloaded = std::max(chunk.peak_offloaded, residents.outside(action.chunk));
    if (action.kind == ActionKind::input_grad)
      chunk.peak_pending_weight_grads = std::max(chunk.peak_pending_weight_grads, ++pending[c]);
    if (action.kind == ActionKind::weight_grad) --pending[c];
    residents.end(action);
  }
  needs.peak_activations = static_cast<double>(peak_in_flight(actions)) / chunks;
  return needs;
}

class PlannedSlots {
 public:
  PlannedSlots(const Plan& plan, const UnitTimes& times, const SlotLife& life)
      : microbatches_(static_cast<std::size_t>(plan.microbatches)), slices_(plan.slices), times_(times), life_(life) {}

  void fill(ChunkNeeds& chunk, int v, int virtual_stages) const {
    const Time activation_end = end_of(life_.activation);
    // A feeder sends one microbatch ahead, so that the next tokens arrive in time.
    const int fed = std::min(peak(&Microbatch::forward_launch, v, activation_end, v) + 1, static_cast<int>(microbatches_));
    chunk.activation_slots = v == 0 ? fed : peak(&Microbatch::forward_launch, v - 1, activation_end, v);
    if (v + 1 == virtual_stages) chunk.target_slots = fed;
    if (v + 1 < virtual_stages) chunk.gradient_slots = peak(&Microbatch::backward_launch, v + 1, end_of(life_.gradient), v);
  }

 private:
  using Microbatch = UnitTimes::Microbatch;
  using Time = std::int32_t Microbatch::*;

  static Time end_of(ActionKind kind) {
    if (kind == ActionKind::forward) return &Microbatch::forward_end;
    return kind == ActionKind::weight_grad ? &Microbatch::weight_end : &Microbatch::backward_end;
  }

  // Returns the most slots in use at once when virtual stage `sender` takes one at each launch and `reader` frees it at
  // each end.
  int peak(Time launch, int sender, Time end, int reader) const {
    if (slices_ > 1) return peak_of_slices(launch, sender, end, reader);
    const Microbatch* sent = times_.of.data() + static_cast<std::size_t>(sender) * microbatches_;
    const Microbatch* read = times_.of.data() + static_cast<std::size_t>(reader) * microbatches_;
    std::size_t freed = 0, most = 0;
    for (std::size_t m = 0; m < microbatches_; ++m) {
      while (freed < m && read[freed].*end <= sent[m].*launch) ++freed;
      most = std::max(most, m + 1 - freed);
    }
    return static_cast<int>(most);
  }

  // Returns the same where slots are not freed in the order in which they are taken.
  int peak_of_slices(Time launch, int sender, Time end, int reader) const {
    std::vector<std::int32_t> taken, freed;
    for (std::size_t m = 0; m < microbatches_; ++m) {
      taken.push_back(times_.of[static_cast<std::size_t>(sender) * microbatches_ + m].*launch);
      freed.push_back(times_.of[static_cast<std::size_t>(reader) * microbatches_ + m].*end);
    }
    std::sort(taken.begin(), taken.end());
    std::sort(freed.begin(), freed.end());
    std::size_t gone = 0, most = 0;
    for (std::size_t m = 0; m < microbatches_; ++m) {
      while (gone < m && freed[gone] <= taken[m]) ++gone;
      most = std::max(most, m + 1 - gone);
    }
    return static_cast<int>(most);
  }

  std::size_t microbatches_;
  int slices_;
  const UnitTimes& times_;
  SlotLife life_;
};

// These bounds hold for every order that the ready rule may choose. A slot that waits for B or I of its receiver
// belongs to a microbatch that the sender holds, because the sender's own B or I comes later; one that waits for W may
// be held by the receiver alone.
void fill_ready(std::vector<StageNeeds>& needs, const Plan& plan, const SlotLife& life) {
  const int chunks = plan.placement.chunks();
  const auto held_by = [&](StageChunk at) {
    const auto& actions = plan.stages[static_cast<std::size_t>(at.stage)];
    return std::min(plan.microbatches, peak_in_flight(actions) - (chunks - 1 - at.chunk));
  };
  for (int v = 0; v < plan.placement.virtual_stages(); ++v) {
    const StageChunk at = plan.placement.at(v);
    StageNeeds& stage = needs[static_cast<std::size_t>(at.stage)];
    ChunkNeeds& chunk = stage.chunks[static_cast<std::size_t>(at.chunk)];
    const int held = held_by(at);
    const int fed = std::min(plan.microbatches, held + 1);
    int sent = v == 0 ? fed : held_by(plan.placement.at(v - 1));
    if (v > 0 && life.activation == ActionKind::weight_grad) sent = std::min(plan.microbatches, sent + held);
    chunk.activation_slots = sent;
    chunk.gradient_slots = v + 1 == plan.placement.virtual_stages() ? 0 : held;
    chunk.target_slots = v + 1 == plan.placement.virtual_stages() ? fed : 0;
    chunk.peak_activations = held;
    if (chunk.peak_pending_weight_grads > 0) chunk.peak_pending_weight_grads = held;
  }
}

}  // namespace

std::vector<StageNeeds> validate(const Plan& plan, Order order, const SlotLife& life) {
  check_life(life);
  if (order == Order::ready && plan.ready_rule == ReadyRule::none)
    throw std::invalid_argument("schedule " + plan.schedule + " has no rule to choose what is ready; use the planned order");
  check_lists(plan);
  UnitTimes times;
  PlanRun(plan, nullptr, life, &times).run();

  const int chunks = plan.placement.chunks();
  std::vector<StageNeeds> needs;
  for (const auto& actions : plan.stages) needs.push_back(list_needs(actions, chunks));
  if (order == Order::ready) {
    fill_ready(needs, plan, life);
    return needs;
  }
  const PlannedSlots slots(plan, times, life);
  for (int v = 0; v < plan.placement.virtual_stages(); ++v) {
    const StageChunk at = plan.placement.at(v);
    slots.fill(needs[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)], v,
               plan.placement.virtual_stages());
  }
  // Progress needs no separate proof. The timed run reached its end with at most these slots, so one order of events
  // reaches the end with them; and with fixed lists, if one order of events reaches the end, all do.
  return needs;
}

void check_plan(const Plan& plan) {
  check_lists(plan);
  PlanRun(plan, nullptr, {}, nullptr).run();
}

void check_progress(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life) {
  PlanRun(plan, &needs, life, nullptr).run();
}

}  // namespace pipetrain::schedules
