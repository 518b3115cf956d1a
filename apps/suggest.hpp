// What other systems call our options.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

// What an option of ColossalAI, DeepSpeed, Megatron-LM or the Hugging Face trainer is called here, e.g.
// "pipeline-model-parallel-size" -> "--pp"; "p" -> "--pp, --tp and --dp". Dashes and underscores are the same. Several
// systems spell one meaning; the table has them all.
std::optional<std::string> our_spelling(std::string_view foreign_name);

}  // namespace pipetrain
