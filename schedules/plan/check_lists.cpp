#include "schedules/plan/check_lists.hpp"

#include <algorithm>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/check_customs.hpp"
#include "schedules/plan/grid.hpp"
#include "schedules/plan/invalid_plan.hpp"

namespace pipetrain::schedules {

namespace {

// How often an end-of-step kind occurs in the whole plan: for every stage or chunk that needs it, or for none.
struct EndCounts {
  int reduce_grads = 0, sum_replicated = 0, sum_tied = 0, norm = 0, optimizer = 0;
};

class ListCheck {
 public:
  ListCheck(const Plan& plan, int stage)
      : plan_(plan),
        stage_(stage),
        list_(plan.stages[static_cast<std::size_t>(stage)]),
        chunks_(static_cast<std::size_t>(plan.placement.chunks())) {}

  void run(EndCounts& ends) {
    for (at_ = 0; at_ < list_.size(); ++at_) {
      const Action& action = list_[at_];
      if (action.chunk < 0 || action.chunk >= plan_.placement.chunks())
        fail(to_string(action, 2) + ": the plan has " + std::to_string(plan_.placement.chunks()) + " chunk(s) a stage");
      if (has_optimizer_) fail(name() + " comes after O, which ends the step");
      if (is_compute(action.kind)) {
        check_compute(action);
      } else if (is_move(action.kind)) {
        check_move(action);
      } else if (is_custom(action.kind)) {
        if (plan_.custom.empty()) fail(name() + " is a custom action that the plan does not name");
      } else {
        check_end(action, ends);
      }
    }
    for (std::size_t c = 0; c < chunks_.size(); ++c) check_complete(c);
  }

 private:
  enum class Residence : std::uint8_t { device, outside, back };
  // The next microbatch of each row of a chunk, whose microbatches must be in order; with slices, the slice's position
  // in the row.
  struct Chunk {
    int forwards = 0;
    int input_grads = 0;   // by B or I
    int weight_grads = 0;  // by B or W
    bool reduced = false, summed = false;
    std::vector<Residence> residences;  // by microbatch: where its activations are; empty: none has moved
  };

  void check_microbatch(int m) const {
    if (m < 0 || m >= plan_.microbatches)
      fail(name() + ": the plan has " + std::to_string(plan_.microbatches / plan_.slices) + " microbatches");
  }

  void check_compute(const Action& action) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
    check_microbatch(action.microbatch);
    if (chunk.reduced || chunk.summed || (has_tied_ && is_end(action.chunk)))
      fail(name() + " comes after the end-of-step sums of its chunk");
    switch (action.kind) {
      case ActionKind::forward:
        take_in_order(chunk.forwards, ActionKind::forward, ActionKind::forward);
        break;
      case ActionKind::input_grad:
        take_in_order(chunk.input_grads, ActionKind::backward, ActionKind::input_grad);
        break;
      case ActionKind::weight_grad:
        take_in_order(chunk.weight_grads, ActionKind::backward, ActionKind::weight_grad);
        break;
      default:
        take_in_order(chunk.input_grads, ActionKind::backward, ActionKind::input_grad);
        take_in_order(chunk.weight_grads, ActionKind::backward, ActionKind::weight_grad);
    }
    if (gives_input_grad(action.kind) && action.microbatch >= chunk.forwards)
      fail(name() + " comes before " + text(ActionKind::forward));
    if (chunk.weight_grads > chunk.input_grads) fail(name() + " comes before " + text(ActionKind::input_grad));
    if (gives_input_grad(action.kind) && place(chunk, action.microbatch) == Residence::outside)
      fail(name() + " comes before " + text(ActionKind::reload) + ", and what it reads is outside of the device");
  }

  static Residence place(const Chunk& chunk, int microbatch) {
    return chunk.residences.empty() ? Residence::device : chunk.residences[static_cast<std::size_t>(microbatch)];
  }

  void check_move(const Action& action) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
    check_microbatch(action.microbatch);
    if (plan_.ready_rule != ReadyRule::none)
      fail(name() + " moves activations, which needs the planned order; leave out the plan's ready rule");
    if (plan_.slices > 1) fail(name() + " moves activations, which plans with slices do not");
    const bool out = action.kind == ActionKind::offload;
    if (chunk.forwards <= action.microbatch) fail(name() + " comes before " + text(ActionKind::forward));
    if (chunk.input_grads > action.microbatch)
      fail(name() + " comes after the backward of its microbatch, when nobody needs what it moves");
    const Residence now = place(chunk, action.microbatch);
    if (now == (out ? Residence::outside : Residence::back)) fail(name() + " comes twice");
    if (!out && now == Residence::device) fail(name() + " comes before " + text(ActionKind::offload));
    if (out && now == Residence::back) fail(name() + " comes after " + text(ActionKind::reload));
    chunk.residences.resize(static_cast<std::size_t>(plan_.microbatches), Residence::device);
    chunk.residences[static_cast<std::size_t>(action.microbatch)] = out ? Residence::outside : Residence::back;
  }

  // Rows `whole` and `half` together must hold the microbatches in order; `next` is the expected one.
  void take_in_order(int& next, ActionKind whole, ActionKind half) {
    const Action& action = list_[at_];
    const int place = place_in_row(half, action.microbatch), missing_one = place_in_row(half, next);
    if (place == next) {
      ++next;
    } else if (place < next) {
      fail(name() + " comes twice, or after its part was done");
    } else {
      const auto expected =
          std::find_if(list_.begin() + static_cast<std::ptrdiff_t>(at_), list_.end(), [&](const Action& other) {
            return other.chunk == action.chunk && other.microbatch == missing_one &&
                   (other.kind == whole || other.kind == half);
          });
      const Action missing{missing_kind(half, missing_one), action.chunk, missing_one};
      if (expected == list_.end()) fail(name() + " comes, but " + text(missing) + " is missing");
      fail(name() + " comes before " + text(*expected) + "; a chunk must keep the order of microbatches" +
           (plan_.slices > 1 ? ", F of their slices up and B, I and W down" : ""));
    }
  }

  // Maps between a slice and its position in a row, in either direction.
  int place_in_row(ActionKind half, int piece) const {
    return half == ActionKind::forward ? piece : backward_place(piece, plan_.slices);
  }

  // Returns the kind of the action that a microbatch lacks: I only where its W exists.
  ActionKind missing_kind(ActionKind half, int microbatch) const {
    if (half != ActionKind::input_grad) return half;
    const Action weight_grad{ActionKind::weight_grad, list_[at_].chunk, microbatch};
    return std::find(list_.begin(), list_.end(), weight_grad) != list_.end() ? half : ActionKind::backward;
  }

  void check_end(const Action& action, EndCounts& ends) {
    if (action.microbatch != -1) fail(name() + " cannot have a microbatch");
    Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
    const auto once = [&](bool& seen) {
      if (seen) fail(name() + " comes twice");
      seen = true;
    };
    if (is_per_chunk(action.kind)) {
      if (has_norm_) fail(name() + " comes after N, which needs the finished gradients");
      check_complete(static_cast<std::size_t>(action.chunk));
    } else if (action.chunk != 0) {
      fail(name() + " is of the whole stage and must carry chunk 0");
    }
    switch (action.kind) {
      // Sums go over replicas, then ranks, then tied ends: another order would add the numbers in another order, or add
      // one end's sum over the replicas to the other end's own gradient.
      case ActionKind::reduce_grads:
        once(chunk.reduced), ++ends.reduce_grads;
        if (chunk.summed) fail(name() + " comes after S of its chunk; sums over replicas come first");
        check_before_tied(action);
        break;
      case ActionKind::sum_replicated:
        once(chunk.summed), ++ends.sum_replicated;
        check_before_tied(action);
        break;
      case ActionKind::sum_tied:
        check_tied(action);
        once(has_tied_), ++ends.sum_tied;
        break;
      case ActionKind::norm:
        once(has_norm_), ++ends.norm;
        for (std::size_t c = 0; c < chunks_.size(); ++c) check_complete(c);
        break;
      default:
        if (!has_norm_) fail("O comes before N, which the verdict needs");
        has_optimizer_ = true, ++ends.optimizer;
    }
  }

  bool is_end(int chunk) const { return plan_.placement.is_first({stage_, chunk}) || plan_.placement.is_last({stage_, chunk}); }

  void check_before_tied(const Action& action) const {
    if (has_tied_ && is_end(action.chunk)) fail(name() + " comes after T, which adds the finished sums of both ends");
  }

  void check_tied(const Action& action) const {
    const auto residences = tied_sum_places(plan_.placement);
    const auto place = std::find_if(residences.begin(), residences.end(), [&](StageChunk at) { return at.stage == stage_; });
    if (!is_end(action.chunk)) fail(name() + " is on a chunk that is neither the first nor the last of the model");
    if (place->chunk != action.chunk)
      fail(name() + " is one too many: this stage holds both ends of the model, and adds their gradients once, at " +
           text({ActionKind::sum_tied, static_cast<std::int16_t>(place->chunk), -1}));
    for (std::int16_t c = 0; c < plan_.placement.chunks(); ++c)
      if (is_end(c)) check_complete(static_cast<std::size_t>(c));
  }

  // All compute of the chunk must come before at_.
  void check_complete(std::size_t c) const {
    const Chunk& chunk = chunks_[c];
    const auto check = [&](ActionKind kind, int next) {
      if (next == plan_.microbatches) return;
      const Action missing{kind, static_cast<std::int16_t>(c), place_in_row(kind, next)};
      fail(at_ < list_.size() ? name() + " comes, but " + text(missing) + " has not come before it"
                              : text(missing) + " is missing");
    };
    check(ActionKind::forward, chunk.forwards);
    check(ActionKind::backward, chunk.input_grads);
    check(ActionKind::weight_grad, chunk.weight_grads);
  }

  std::string text(const Action& action) const { return to_string(action, plan_.form()); }
  std::string text(ActionKind kind) const { return text({kind, list_[at_].chunk, list_[at_].microbatch}); }
  std::string name() const { return text(list_[at_]); }
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidPlan("stage " + std::to_string(stage_) + ": " + what, stage_, print_grid(plan_, {{stage_, at_}}));
  }

  const Plan& plan_;
  int stage_;
  const std::vector<Action>& list_;
  std::vector<Chunk> chunks_;
  std::size_t at_ = 0;
  bool has_tied_ = false;
  bool has_norm_ = false;
  bool has_optimizer_ = false;
};

void check_all_or_none(const Plan& plan, ActionKind kind, int count, int expected) {
  if (count == 0 || count == expected) return;
  throw InvalidPlan(std::string(1, letter(kind)) + " occurs " + std::to_string(count) +
                        " times in the plan; it must be there " + std::to_string(expected) +
                        " times (once for each that takes part) or not at all",
                    -1, print_grid(plan, {}));
}

}  // namespace

void check_lists(const Plan& plan) {
  const Placement& placement = plan.placement;
  if (static_cast<int>(plan.stages.size()) != placement.stages())
    throw InvalidPlan(
        "the plan has " + std::to_string(plan.stages.size()) + " lists for " + std::to_string(placement.stages()) + " stages",
        -1, "");
  if (plan.microbatches < 1)
    throw InvalidPlan("the plan has " + std::to_string(plan.microbatches) + " microbatches; it needs at least 1", -1, "");
  if (plan.slices < 1 || plan.microbatches % plan.slices != 0)
    throw InvalidPlan("the plan has " + std::to_string(plan.microbatches) + " pieces of " + std::to_string(plan.slices) +
                          " slices a microbatch; it needs all slices of each",
                      -1, "");
  if (plan.slices > 1 && plan.ready_rule != ReadyRule::none)
    throw InvalidPlan("the plan has slices, for which there is no ready rule; leave its rule out", -1, "");
  EndCounts ends;
  for (int stage = 0; stage < placement.stages(); ++stage) ListCheck(plan, stage).run(ends);
  check_braids(plan);
  if (!plan.custom.empty()) check_customs(plan);
  const int holders_of_tied = static_cast<int>(tied_sum_places(placement).size());
  check_all_or_none(plan, ActionKind::reduce_grads, ends.reduce_grads, placement.virtual_stages());
  check_all_or_none(plan, ActionKind::sum_replicated, ends.sum_replicated, placement.virtual_stages());
  check_all_or_none(plan, ActionKind::sum_tied, ends.sum_tied, holders_of_tied);
  check_all_or_none(plan, ActionKind::norm, ends.norm, placement.stages());
  check_all_or_none(plan, ActionKind::optimizer, ends.optimizer, placement.stages());
}

}  // namespace pipetrain::schedules
