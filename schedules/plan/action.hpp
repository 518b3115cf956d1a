// What a stage can do. An action's text is the letter of its kind, then the microbatch; the chunk stands in front where a stage
// has several: "F3", "1B3", "R", "1R", "N". Where microbatches pass in slices the slice stands behind a point: "F3.1". A custom
// action has its number in the plan: "X2". parse_action() reads the text back as the same action.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain::schedules {

enum class ActionKind : std::uint8_t {
  forward,      // F
  backward,     // B: input_grad and weight_grad in one
  input_grad,   // I: the gradient that the previous virtual stage waits for
  weight_grad,  // W: the gradients of this chunk's weights, after I of the same microbatch
  // End of step, after all compute of the chunk (R, S, T) or of the stage (N, O). They have no microbatch.
  reduce_grads,    // R: sum a chunk's gradients over the data-parallel replicas
  sum_replicated,  // S: sum over the tensor-parallel ranks the gradients of which each has a part
  sum_tied,        // T: sum the gradients of weights that the model's two ends share; once on each stage that holds an end
  norm,            // N: this stage's part of the gradient norm
  optimizer,       // O: apply or skip the step, after the verdict
  custom,          // X: whatever the plan's CustomAction of this number says; carries chunk 0
  // What is kept of a microbatch from F on moves beside compute, which does not wait for it until it needs the place or the
  // values.
  offload,  // P: out of the device, after F
  reload,   // G: back, after P and before B or I
  // V: the weights that operations read, as O would make them if the verdict is what it mostly is; what O keeps stays. Stands
  // in no plan: StageProtocol puts it between N and O where the coming step begins before the verdict.
  preview,
};
constexpr int action_kinds = 13;

constexpr bool is_compute(ActionKind kind) { return kind <= ActionKind::weight_grad; }
constexpr bool is_custom(ActionKind kind) { return kind == ActionKind::custom; }
constexpr bool gives_input_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_grad; }
constexpr bool gives_weight_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::weight_grad; }
constexpr bool is_move(ActionKind kind) { return kind == ActionKind::offload || kind == ActionKind::reload; }
constexpr bool has_microbatch(ActionKind kind) { return is_compute(kind) || is_move(kind); }
// Per chunk: compute, moves, R, S and T. N and O are of the whole stage and carry chunk 0.
constexpr bool is_per_chunk(ActionKind kind) { return kind <= ActionKind::sum_tied || is_move(kind); }

struct Action {
  ActionKind kind = ActionKind::forward;
  std::int16_t chunk = 0;
  // -1 for end-of-step actions; of a custom one its number in the plan. Of a plan with slices, the piece: see Plan::slices.
  std::int32_t microbatch = -1;

  bool operator==(const Action&) const = default;
};

// What of its plan an action's text depends on.
struct ActionForm {
  int chunks;  // of the stage: the chunk is written only when there are several
  int slices;  // of a microbatch: so is the slice
  ActionForm(int of_stage = 1, int of_microbatch = 1) : chunks(of_stage), slices(of_microbatch) {}
};

char letter(ActionKind kind);
std::string to_string(const Action& action, const ActionForm& form = {});
// "3", or with slices "3.1": the piece that an action, an input or a slot is of.
std::string piece_text(int microbatch, int slices);
// Nothing when the text is not an action of a plan with so many slices.
std::optional<Action> parse_action(std::string_view text, int slices = 1);

}  // namespace pipetrain::schedules
