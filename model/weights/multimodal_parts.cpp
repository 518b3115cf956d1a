#include "model/weights/multimodal_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/json_misuse.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/families/further_decoder.hpp"
#include "model/families/multimodal_config.hpp"
#include "model/weights/piecewise_weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_record_bytes = std::size_t{64} << 20;

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

struct PartsRecord {
  fs::path folder;
  Json config;
  std::vector<MultimodalParts::Part> parts;
};

PartsRecord read_record(const fs::path& file) {
  const Json all = parse_json(read_text(file, most_record_bytes), {file.string()}, {.values = 2'000'000});
  try {
    PartsRecord record{all.at("folder").as_string(), all.at("config"), {}};
    for (const Json& one : all.at("tensors")) {
      MultimodalParts::Part part{{one.at("name").as_string(), one.at("dtype").as_string(), {}, one.at("bytes").as_uint64()},
                                 one.at("checksum").as_uint64()};
      for (const Json& size : one.at("shape")) part.tensor.shape.push_back(size.as_int64());
      record.parts.push_back(std::move(part));
    }
    return record;
  } catch (const JsonMisuse&) {
    throw Error(ErrorKind::input,
                fmt::format("{}: a key is missing, or has a wrong value; take another checkpoint", file.string()));
  }
}

// Returns how the parts differ from those of the record; empty: not at all.
std::string other_parts(const std::vector<MultimodalParts::Part>& found, const std::vector<MultimodalParts::Part>& recorded) {
  for (const auto& part : recorded) {
    const auto is_it = [&](const auto& other) { return other.tensor.name == part.tensor.name; };
    const auto same = std::find_if(found.begin(), found.end(), is_it);
    if (same == found.end()) return fmt::format("it has no tensor {}", part.tensor.name);
    if (!(*same == part)) return fmt::format("its tensor {} is another one", part.tensor.name);
  }
  if (found.size() > recorded.size()) return "it has more tensors";
  return "";
}

ModelConfig model_of(const Json& config, const fs::path& folder) {
  return parse_hf_config(config.dump({.replace = true}), (folder / "config.json").string());
}

// Returns config.json of a folder that says that it has further layers, in the type of other tensors.
std::optional<Json> config_of_further_layers(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!has_file(file) || !rank_files(folder).empty() || !has_weight_files(folder)) return {};
  Json config = parse_json(read_text(file, most_config_bytes), {file.string()});
  if (config.contains("quantization_config") || model_of(config, folder).mtp.layers == 0) return {};
  return config;
}

std::shared_ptr<const MultimodalParts> open_recorded(const fs::path& checkpoint, const fs::path& moved_to) {
  const PartsRecord record = read_record(checkpoint / multimodal_file);
  const fs::path folder = moved_to.empty() ? record.folder : moved_to;
  std::string why;
  try {
    auto parts = std::make_shared<MultimodalParts>(folder, record.config);
    why = other_parts(parts->parts(), record.parts);
    if (why.empty()) return parts;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    why = error.what();
  }
  throw Error(ErrorKind::input, {"model", folder.string()},
              fmt::format("{} takes the tensors besides its language model from there, and they are not as they were: {}; give "
                          "the folder that its run began from",
                          checkpoint.string(), why));
}

}  // namespace

std::uint64_t MultimodalParts::Part::element_bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= static_cast<std::uint64_t>(size);
  return elements == 0 ? 0 : tensor.bytes / elements;
}

bool MultimodalParts::Part::operator==(const Part& other) const {
  return tensor.name == other.tensor.name && tensor.dtype == other.tensor.dtype && tensor.shape == other.tensor.shape &&
         tensor.bytes == other.tensor.bytes && checksum == other.checksum;
}

MultimodalParts::MultimodalParts(const fs::path& folder, Json config)
    : folder_(fs::absolute(folder)), config_(std::move(config)), tensors_(spec_of(model_of(config_, folder).family), folder) {
  if (!pipetrain::is_multimodal(config_)) {
    const ModelConfig model = model_of(config_, folder);
    further_layers_ = model.mtp.layers;
    tensors_.set_layers_apart(model.layers);
  }
  for (const auto& [name, location] : tensors_.other_parts()) {
    const SafetensorsReader::Entry& entry = location.file->entries().at(location.name);
    Checksum sum;
    location.file->read_bytes(location.name, [&](const void* data, std::size_t bytes) { sum.add(data, bytes); });
    parts_.push_back({{name, entry.dtype, entry.shape, entry.end - entry.begin}, sum.value()});
  }
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Part& a, const Part& b) { return a.element_bytes() > b.element_bytes(); });
}

Json MultimodalParts::config(const ModelConfig& language_model, SavedType type) const {
  if (further_layers_ > 0) {
    Json own = parse_json(hf_config_text(language_model), {"config.json"}, {.values = 0});
    for (const char* key : {"torch_dtype", "dtype"}) own[key] = transformers_name(type);
    own[further_layers_key] = further_layers_;
    return own;
  }
  Json outer = with_text_config(config_, language_model);
  const bool says_type = outer.contains("torch_dtype") || outer.contains("dtype");
  // Otherwise transformers would round the language model's weights to the type that they had.
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!says_type || outer.contains(key)) outer[key] = transformers_name(type);
    const Json* const inner = outer.find(text_config_key);
    if (inner && inner->contains(key)) outer[text_config_key][key] = transformers_name(type);
  }
  return outer;
}

void MultimodalParts::copy(const Part& part, SafetensorsWriter& writer) const {
  const HfTensors::Location& location = tensors_.other_parts().at(part.tensor.name);
  if (writer.copy(*location.file, location.name) == part.checksum) return;
  throw Error(ErrorKind::input,
              fmt::format("{}: tensor {} has changed since the file was opened; keep the file as it is while it "
                          "is in use",
                          location.file->path().string(), location.name));
}

std::string MultimodalParts::record() const {
  Json tensors = Json::array();
  for (const Part& part : parts_)
    tensors.push_back(Json::object({{"name", part.tensor.name},
                                    {"dtype", part.tensor.dtype},
                                    {"shape", Json(part.tensor.shape)},
                                    {"bytes", part.tensor.bytes},
                                    {"checksum", part.checksum}}));
  const Json all = Json::object({{"folder", folder_.string()}, {"config", config_}, {"tensors", std::move(tensors)}});
  return all.dump({.indent = 1, .order = JsonOrder::as_added, .replace = true}) + "\n";
}

std::shared_ptr<const MultimodalParts> multimodal_parts(const fs::path& model, const fs::path& moved_to) {
  if (has_file(model / multimodal_file)) return open_recorded(model, moved_to);
  auto config = read_multimodal_config(model);
  if (config && !has_weight_files(model)) return nullptr;
  if (!config) config = config_of_further_layers(model);
  if (!config) return nullptr;
  auto parts = std::make_shared<MultimodalParts>(model, std::move(*config));
  return parts->is_multimodal() || !parts->parts().empty() ? parts : nullptr;
}

}  // namespace pipetrain
