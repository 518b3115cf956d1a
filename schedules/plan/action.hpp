// The actions of a stage. An action's text is the letter of its kind, then the microbatch; before it the chunk, if the
// stage has several: "F3", "1B3", "R", "1R", "N". With slices, the slice follows after a point: "F3.1". A custom action
// has its number in the plan: "X2". parse_action() reads the text back as the same action.
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
  // Actions at the end of a step, after all compute of the chunk (R, S, T) or of the stage (N, O). They have no microbatch.
  reduce_grads,    // R: sum a chunk's gradients over the data-parallel replicas
  sum_replicated,  // S: sum over the tensor-parallel ranks the gradients of which each has a part
  sum_tied,        // T: sum the gradients of weights that the model's two ends share; once on each stage that holds an end
  norm,            // N: this stage's part of the gradient norm
  optimizer,       // O: apply or skip the step, after the verdict
  custom,          // X: the plan's CustomAction of this number; carries chunk 0
  // Moves of a microbatch's activations. They run beside compute, which waits for them only when it needs the memory or
  // the values.
  offload,  // P: out of the device, after F
  reload,   // G: back, after P and before B or I
  // V: preview the weights that operations read, as O would most likely make them; O's own state does not change. No
  // plan contains V: StageProtocol puts it between N and O where the coming step begins before the verdict.
  preview,
};
constexpr int action_kinds = 13;

constexpr bool is_compute(ActionKind kind) { return kind <= ActionKind::weight_grad; }
constexpr bool is_custom(ActionKind kind) { return kind == ActionKind::custom; }
constexpr bool gives_input_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_grad; }
constexpr bool gives_weight_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::weight_grad; }
constexpr bool is_move(ActionKind kind) { return kind == ActionKind::offload || kind == ActionKind::reload; }
constexpr bool has_microbatch(ActionKind kind) { return is_compute(kind) || is_move(kind); }
// Compute, moves, R, S and T belong to a chunk; N and O belong to the whole stage and carry chunk 0.
constexpr bool is_per_chunk(ActionKind kind) { return kind <= ActionKind::sum_tied || is_move(kind); }

struct Action {
  ActionKind kind = ActionKind::forward;
  std::int16_t chunk = 0;
  // -1 for end-of-step actions; for a custom one its number in the plan; with slices, the slice's number: see Plan::slices.
  std::int32_t microbatch = -1;

  bool operator==(const Action&) const = default;
};

// The properties of a plan that an action's text depends on.
struct ActionForm {
  int chunks;  // of the stage: the chunk is written only when there are several
  int slices;  // of a microbatch: the slice is written only when there are several
  ActionForm(int of_stage = 1, int of_microbatch = 1) : chunks(of_stage), slices(of_microbatch) {}
};

char letter(ActionKind kind);
std::string to_string(const Action& action, const ActionForm& form = {});
// Returns "3", or with slices "3.1": the microbatch or slice of an action, an input or a slot.
std::string piece_text(int microbatch, int slices);
// Returns no value when the text is not an action of a plan with this many slices.
std::optional<Action> parse_action(std::string_view text, int slices = 1);

}  // namespace pipetrain::schedules
