// The names that other systems give to our options.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

// Returns the name here of an option of ColossalAI, DeepSpeed, Megatron-LM, torchtitan or the Hugging Face trainer, e.g.
// "pipeline-model-parallel-size" -> "--pp"; "p" -> "--pp, --tp and --dp"; where no option is the answer, a clause that says
// what is: "this is always on here, leave it out". Dashes and underscores are the same; of torchtitan's dotted names the last
// part is enough. The keys that --config
// takes of their files are known by their whole names.
std::optional<std::string> our_spelling(std::string_view foreign_name);

// The same for schedules: "ZBVZeroBubble" -> "zb-v".
std::optional<std::string> our_schedule(std::string_view foreign_name);

}  // namespace pipetrain
