#include "model/weights/adapter_in_folder.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "model/weights/piecewise_weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* adapter_config = "adapter_config.json";
constexpr const char* adapter_files[] = {adapter_config, "adapter_model.safetensors", "adapter_model.bin"};

// Returns "a LoRA adapter", or "an adapter" if the file does not say which kind.
std::string kind_of_adapter(const fs::path& file) {
  constexpr std::size_t most = std::size_t{4} << 20;
  try {
    const Json config = parse_json(read_text(file, most), {file.string()});
    const Json* const type = config.is_object() ? config.find("peft_type") : nullptr;
    if (type == nullptr || !type->is_string()) return "an adapter";
    return type->as_string() == "LORA" ? "a LoRA adapter" : fmt::format("an adapter of type {}", type->as_string());
  } catch (const Error&) {  // the file is an adapter in any case
    return "an adapter";
  }
}

}  // namespace

std::optional<std::string> adapter_in(const fs::path& folder) {
  std::error_code ignored;
  if (!rank_files(folder).empty()) return {};  // a checkpoint, which describes its adapters in the same way
  for (const char* name : adapter_files) {
    if (!fs::exists(folder / name, ignored)) continue;
    const std::string kind =
        fs::exists(folder / adapter_config, ignored) ? kind_of_adapter(folder / adapter_config) : "an adapter";
    const char* const remedy =
        "give its base as the model and this folder as the adapter, or merge them into a model with export";
    if (!fs::exists(folder / "config.json", ignored))
      return fmt::format("is {} ({}), not a whole model; {}", kind, name, remedy);
    return fmt::format(
        "has {} ({}) next to the model, which transformers adds to its weights; {}, or take the adapter out of "
        "this one",
        kind, name, remedy);
  }
  return {};
}

}  // namespace pipetrain
