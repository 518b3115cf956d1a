// Translates the names of options and schedules of other systems into those of pipetrain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

// Returns our name for an option of ColossalAI, DeepSpeed, Megatron-LM, torchtitan or the Hugging Face trainer, e.g.
// "pipeline-model-parallel-size" -> "--pp"; "p" -> "--pp, --tp and --dp". If no option corresponds to it, returns a clause that
// explains what to do: "this is always on here, leave it out". Dashes and underscores are equivalent; for torchtitan's dotted
// names, the last part is enough. Keys of foreign files that --config takes are found by their whole names.
std::optional<std::string> our_spelling(std::string_view foreign_name);

// Returns our name for a schedule of another system: "ZBVZeroBubble" -> "zb-v".
std::optional<std::string> our_schedule(std::string_view foreign_name);

}  // namespace pipetrain
