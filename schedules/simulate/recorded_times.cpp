#include "schedules/simulate/recorded_times.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "schedules/plan/custom_waits.hpp"
#include "schedules/simulate/median.hpp"

namespace pipetrain::schedules {

namespace {

constexpr double unknown_time = -std::numeric_limits<double>::infinity();

// The times at which each virtual stage's compute of each microbatch ended.
class Ends {
 public:
  Ends(const Placement& placement, int microbatches)
      : ends_(static_cast<std::size_t>(placement.virtual_stages()),
              std::vector<OfMicrobatch>(static_cast<std::size_t>(microbatches))) {}

  void note(int v, const Span& span) {
    OfMicrobatch& at = ends_[static_cast<std::size_t>(v)][static_cast<std::size_t>(span.action.microbatch)];
    if (span.action.kind == ActionKind::forward) at.forward = span.end;
    if (gives_input_grad(span.action.kind)) at.input_grad = span.end;
    if (gives_weight_grad(span.action.kind)) at.weight_grad = span.end;
  }
  double forward(int v, int microbatch) const { return of(v, microbatch).forward; }
  double input_grad(int v, int microbatch) const { return of(v, microbatch).input_grad; }
  // Returns when an input whose last reader is `last_reader` left its slot.
  double freed(int v, int microbatch, ActionKind last_reader) const {
    const OfMicrobatch& at = of(v, microbatch);
    if (last_reader == ActionKind::forward) return at.forward;
    return last_reader == ActionKind::input_grad ? at.input_grad : at.weight_grad;
  }

 private:
  struct OfMicrobatch {
    double forward = unknown_time, input_grad = unknown_time, weight_grad = unknown_time;
  };
  const OfMicrobatch& of(int v, int m) const { return ends_[static_cast<std::size_t>(v)][static_cast<std::size_t>(m)]; }

  std::vector<std::vector<OfMicrobatch>> ends_;
};

class StepApart {
 public:
  StepApart(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life, const Timeline& timeline)
      : plan_(plan),
        needs_(needs),
        life_(life),
        timeline_(timeline),
        ends_(plan.placement, plan.microbatches),
        waits_(plan),
        signalled_(plan.custom.size(), unknown_time) {
    check();
    each([&](int stage, const Span& span, double) {
      begin_ = std::min(begin_, span.start);
      if (is_compute(span.action.kind)) ends_.note(plan_.placement.virtual_stage(stage, span.action.chunk), span);
      if (span.action.kind == ActionKind::norm) last_norm_ = std::max(last_norm_, span.end);
      if (span.action.kind == ActionKind::sum_tied) tied_ = std::max(tied_, span.start);
      for (const int custom : waits_.waiting_for(stage, span.action)) {
        double& last = signalled_[static_cast<std::size_t>(custom)];
        last = std::max(last, span.end);
      }
    });
    find_messages();
  }

  RecordedTimes result() && {
    result_.times.resize(timeline_.stages.size());
    result_.delays.resize(timeline_.stages.size());
    each([&](int stage, const Span& span, double free) {
      // The time of T begins when the last of its stages has reached it.
      const double start = span.action.kind == ActionKind::sum_tied ? std::max(span.start, tied_) : span.start;
      result_.times[static_cast<std::size_t>(stage)].push_back(span.end - start);
      result_.delays[static_cast<std::size_t>(stage)].push_back(span.start - needed(stage, span, free));
    });
    return std::move(result_);
  }

 private:
  void check() const {
    if (timeline_.stages.size() != plan_.stages.size())
      throw std::invalid_argument("the timeline has other stages than the plan");
    for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      const auto& row = timeline_.stages[stage];
      std::vector<Action> list;  // without moves, which run beside it: waiting for them is in the delays
      std::copy_if(plan_.stages[stage].begin(), plan_.stages[stage].end(), std::back_inserter(list),
                   [](const Action& action) { return !is_move(action.kind); });
      const bool same = std::equal(row.begin(), row.end(), list.begin(), list.end(),
                                   [](const Span& span, const Action& action) { return span.action == action; });
      if (!same) throw std::invalid_argument("the timeline has other actions than the plan");
    }
  }

  // work(stage, span, when the stage was free for it)
  template <class Work>
  void each(const Work& work) const {
    for (std::size_t stage = 0; stage < timeline_.stages.size(); ++stage) {
      double free = begin_ == std::numeric_limits<double>::infinity() ? unknown_time : begin_;
      for (const Span& span : timeline_.stages[stage]) {
        work(static_cast<int>(stage), span, free);
        free = span.end;
      }
    }
  }

  // Returns the end of the action that made the input that this one may wait for; unknown where no other action made it.
  double made(int v, const Action& action) const {
    if (action.kind == ActionKind::forward) return v > 0 ? ends_.forward(v - 1, action.microbatch) : unknown_time;
    const bool waits = gives_input_grad(action.kind) && v + 1 < plan_.placement.virtual_stages();
    return waits ? ends_.input_grad(v + 1, action.microbatch) : unknown_time;
  }
  double& message(int v, const Action& action) {
    auto& queue = (action.kind == ActionKind::forward ? result_.activations : result_.gradients)[static_cast<std::size_t>(v)];
    return queue[static_cast<std::size_t>(action.microbatch)];
  }

  void find_messages() {
    const auto virtual_stages = static_cast<std::size_t>(plan_.placement.virtual_stages());
    result_.activations.assign(virtual_stages, std::vector<double>(static_cast<std::size_t>(plan_.microbatches)));
    result_.gradients = result_.activations;
    std::vector<std::vector<double>> waited(virtual_stages);  // by edge: both directions
    const auto visit = [&](const auto& work) {
      each([&](int stage, const Span& span, double free) {
        if (!is_compute(span.action.kind)) return;
        const int v = plan_.placement.virtual_stage(stage, span.action.chunk);
        const double end = made(v, span.action);
        if (end == unknown_time) return;
        const int edge = span.action.kind == ActionKind::forward ? v - 1 : v;
        work(static_cast<std::size_t>(edge), message(v, span.action), std::max(0.0, span.start - end), end > free);
      });
    };
    visit([&](std::size_t edge, double&, double room, bool waits) {
      if (waits) waited[edge].push_back(room);
    });
    std::vector<double> usual;
    for (auto& edge : waited) usual.push_back(median_of(std::move(edge)));
    visit([&](std::size_t edge, double& took, double room, bool waits) { took = waits ? room : std::min(room, usual[edge]); });
  }

  // Returns the earliest start that simulate() would compute.
  double needed(int stage, const Span& span, double free) {
    const Action& action = span.action;
    double time = free;
    if (action.kind == ActionKind::optimizer) time = std::max(time, last_norm_);
    if (is_custom(action.kind)) time = std::max(time, signalled_[static_cast<std::size_t>(action.microbatch)]);
    if (!is_compute(action.kind)) return time;
    const int v = plan_.placement.virtual_stage(stage, action.chunk);
    if (const double end = made(v, action); end != unknown_time) time = std::max(time, end + message(v, action));
    const bool forward = action.kind == ActionKind::forward;
    const int consumer = forward ? v + 1 : v - 1;
    const bool sends =
        (forward || gives_input_grad(action.kind)) && consumer >= 0 && consumer < plan_.placement.virtual_stages();
    return sends ? std::max(time, slot_free(consumer, action)) : time;
  }

  // Returns when the slot for this action's output was free: the queue reuses slots in order.
  double slot_free(int consumer, const Action& action) const {
    const StageChunk at = plan_.placement.at(consumer);
    const ChunkNeeds& needs = needs_[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
    const bool forward = action.kind == ActionKind::forward;
    const ActionKind last_reader = forward ? life_.activation : life_.gradient;
    const int turn = forward ? action.microbatch : backward_place(action.microbatch, plan_.slices);
    const int before = turn - (forward ? needs.activation_slots : needs.gradient_slots);
    if (before < 0) return begin_;
    if (plan_.slices == 1) return ends_.freed(consumer, before, last_reader);
    // The first slices of a microbatch to take a slot are the last to free it.
    std::vector<double> freed;
    for (int piece = 0; piece < plan_.microbatches; ++piece) freed.push_back(ends_.freed(consumer, piece, last_reader));
    std::nth_element(freed.begin(), freed.begin() + before, freed.end());
    return freed[static_cast<std::size_t>(before)];
  }

  const Plan& plan_;
  const std::vector<StageNeeds>& needs_;
  SlotLife life_;
  const Timeline& timeline_;
  Ends ends_;
  CustomWaits waits_;
  std::vector<double> signalled_;  // by custom action: the last end of what it waits for
  double begin_ = std::numeric_limits<double>::infinity(), last_norm_ = unknown_time, tied_ = unknown_time;
  RecordedTimes result_;
};

}  // namespace

RecordedTimes recorded_times(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life,
                             const Timeline& timeline) {
  return StepApart(plan, needs, life, timeline).result();
}

void RecordedTimes::scale_stage(int stage, double factor) {
  for (double& time : times[static_cast<std::size_t>(stage)]) time *= factor;
}

void RecordedTimes::scale_link(const Placement& placement, int a, int b, double factor) {
  for (int v = 0; v < placement.virtual_stages(); ++v) {
    const auto scale = [&](std::vector<double>& queue, int from) {
      if (from < 0 || from >= placement.virtual_stages()) return;
      const int sender = placement.at(from).stage, receiver = placement.at(v).stage;
      if ((sender != a || receiver != b) && (sender != b || receiver != a)) return;
      for (double& took : queue) took *= factor;
    };
    scale(activations[static_cast<std::size_t>(v)], v - 1);
    scale(gradients[static_cast<std::size_t>(v)], v + 1);
  }
}

std::vector<double> RecordedTimes::transfers() const {
  std::vector<double> medians;
  for (std::size_t v = 0; v + 1 < activations.size(); ++v) {
    std::vector<double> both = activations[v + 1];
    both.insert(both.end(), gradients[v].begin(), gradients[v].end());
    medians.push_back(median_of(std::move(both)));
  }
  return medians;
}

}  // namespace pipetrain::schedules
