#include "actors/training/checkpoint/checkpoint_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"
#include "files/json_misuse.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/companion_files.hpp"
#include "ops/weight_form.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// The checksums of a large model's tensors take some 200 KB; these limits allow about 8,000 layers. The values that are
// read take at most 64 MB in addition to their strings.
constexpr std::size_t most_bytes = std::size_t{64} << 20, most_state_values = 250'000;
constexpr std::size_t checksum_digits = 16;

std::string to_text(std::uint64_t checksum) { return fmt::format("{:0{}x}", checksum, checksum_digits); }

[[noreturn]] void refuse_checkpoint(const fs::path& file, const std::string& why) {
  throw Error(ErrorKind::input,
              fmt::format("{}: is not a checkpoint's state ({}); take another checkpoint", file.string(), why));
}

// Returns the position of the digits of the file's checksum of itself; npos when there is none.
std::size_t own_checksum_place(std::string_view text) {
  constexpr std::string_view key = R"("checksum": ")";
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos || at + key.size() + checksum_digits > text.size()) return std::string_view::npos;
  return at + key.size();
}

// Computes the file's checksum of itself, with zeros in place of its digits.
std::string own_checksum(std::string text, std::size_t place) {
  text.replace(place, checksum_digits, checksum_digits, '0');
  return to_text(checksum(text.data(), text.size()));
}

Json to_json(const CheckpointChecksums& checksums) {
  Json files = Json::object();
  for (const auto& [name, sum] : checksums.small_files) files[name] = to_text(sum);
  for (const auto& [name, sums] : checksums.tensors) {
    Json& file = files[name];
    file = Json::object({{"bytes", sums.bytes}, {"header", to_text(sums.header)}, {"tensors", Json::object()}});
    Json& tensors = file["tensors"];
    for (const auto& [tensor, sum] : sums.tensors) tensors[tensor] = to_text(sum);
  }
  Json made = Json::object({{"algorithm", "xxh3-64"}});
  made["files"] = std::move(files);
  return made;
}

// Counts values as JsonLimits does.
std::size_t value_count(const Json& value) {
  std::size_t count = 1;
  for (const Json& element : value) count += value_count(element);
  for (const auto& [key, member] : value.items()) count += value_count(member);
  return count;
}

std::int64_t whole_number(const Json& parent, const char* key, std::int64_t least, const fs::path& file) {
  const Json& value = parent.at(key);
  const auto number = value.whole();
  if (!number || *number < least) refuse_checkpoint(file, fmt::format("{} is {}", key, value.dump()));
  return *number;
}

std::uint64_t checksum_in(const Json& value, const fs::path& file) {
  const auto& digits = value.as_string();
  const auto sum = number_from<std::uint64_t>(digits, 16);
  if (digits.size() != checksum_digits || !sum) refuse_checkpoint(file, "a checksum is not of 16 hexadecimal digits");
  return *sum;
}

// True for a file of the checkpoint's folder or one of its chat templates, not for a file outside.
bool names_own_file(std::string_view name) {
  const std::string templates = std::string(chat_templates_folder) + "/";
  if (name.starts_with(templates)) name.remove_prefix(templates.size());
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

CheckpointChecksums checksums_in(const Json& value, const fs::path& file) {
  CheckpointChecksums checksums;
  for (const auto& [name, entry] : value.at("files").items()) {
    if (!names_own_file(name))
      refuse_checkpoint(file, fmt::format("{} is not the name of a file in this folder", shown_json_key(name)));
    if (entry.is_string()) {
      checksums.small_files[name] = checksum_in(entry, file);
      continue;
    }
    SafetensorsChecksums& sums = checksums.tensors[name];
    sums.bytes = entry.at("bytes").as_uint64();
    sums.header = checksum_in(entry.at("header"), file);
    for (const auto& [tensor, sum] : entry.at("tensors").items()) sums.tensors[tensor] = checksum_in(sum, file);
  }
  if (!checksums.small_files.contains("config.json")) refuse_checkpoint(file, "it has no checksum of config.json");
  return checksums;
}

Json to_json(const LossScaleState& state) {
  return Json::object({{"scale", state.scale}, {"good_steps", state.good_steps}, {"overflows", state.overflows}});
}

LossScaleState loss_scale_in(const Json& value, const fs::path& file) {
  LossScaleState state;
  state.scale = value.at("scale").as_double();
  if (!(state.scale > 0)) refuse_checkpoint(file, fmt::format("the loss scale is {}", value.at("scale").dump()));
  state.good_steps = whole_number(value, "good_steps", 0, file);
  state.overflows = whole_number(value, "overflows", 0, file);
  return state;
}

Json to_json(const VarianceState& state) {
  return Json::object({{"norm", state.norm},
                       {"earlier", state.earlier},
                       {"steps", state.steps},
                       {"frozen_after", state.frozen_after},
                       {"clip", state.clip}});
}

VarianceState variance_in(const Json& value, const fs::path& file) {
  VarianceState state{value.at("norm").as_double(), value.at("earlier").as_double()};
  if (!(state.norm >= 0 && state.earlier >= 0))
    refuse_checkpoint(file, fmt::format("the norms of second moments are {}", value.dump()));
  state.steps = whole_number(value, "steps", 0, file);
  state.frozen_after = whole_number(value, "frozen_after", 0, file);
  if (value.contains("clip"))
    state.clip = value.at("clip").as_double();  // earlier checkpoints have moments that need no factor
  if (!(state.clip > 0 && state.clip <= 1)) refuse_checkpoint(file, fmt::format("the factor of gradients is {}", state.clip));
  return state;
}

Json to_json(const std::vector<std::vector<float>>& biases) {
  Json layers = Json::array();
  for (const std::vector<float>& layer : biases) layers.push_back(Json(std::vector<double>(layer.begin(), layer.end())));
  return layers;
}

std::vector<std::vector<float>> expert_biases_in(const Json& value) {
  std::vector<std::vector<float>> biases;
  for (const Json& layer : value) {
    auto& values = biases.emplace_back();
    for (const Json& bias : layer) values.push_back(static_cast<float>(bias.as_double()));
  }
  return biases;
}

std::string optimizer_in(const Json& value, const fs::path& file) {
  const std::string& name = value.as_string();
  const auto names = optimizer_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    refuse_checkpoint(file, fmt::format("the optimizer is {}", value.dump()));
  return name;
}

std::string base_form_in(const Json& value, const fs::path& file) {
  constexpr WeightForm forms[] = {WeightForm::plain, WeightForm::bf16, WeightForm::fp8, WeightForm::nf4};
  const std::string& name = value.as_string();
  if (std::none_of(std::begin(forms), std::end(forms), [&](WeightForm form) { return name == name_of(form); }))
    refuse_checkpoint(file, fmt::format("the form of the base is {}", value.dump()));
  return name;
}

TrainedParts trained_in(const Json& value, const fs::path& file) {
  const auto trained = read_trained_parts(value.as_string());
  if (!trained) refuse_checkpoint(file, fmt::format("the trained parts are {}", value.dump()));
  return *trained;
}

CheckpointState state_in(const Json& value, const fs::path& file) {
  CheckpointState state;
  state.step = whole_number(value, "step", 1, file);
  state.applied_steps = whole_number(value, "applied_steps", 0, file);
  if (state.applied_steps > state.step)
    refuse_checkpoint(file, fmt::format("step is {}, applied_steps {}", state.step, state.applied_steps));
  if (value.contains("optimizer")) state.optimizer = optimizer_in(value.at("optimizer"), file);
  if (value.contains("trained")) state.trained = trained_in(value.at("trained"), file);
  if (value.contains("base")) state.base = checksum_in(value.at("base"), file);
  if (value.contains("base_form")) state.base_form = base_form_in(value.at("base_form"), file);
  if (value.contains("compression")) state.compression = value.at("compression").as_string();
  state.first_loss = value.at("first_loss").as_double();
  if (value.contains("last_loss")) state.last_loss = value.at("last_loss").as_double();
  if (value.contains("loss_scale")) state.loss_scale = loss_scale_in(value.at("loss_scale"), file);
  if (value.contains("variance")) state.variance = variance_in(value.at("variance"), file);
  if (value.contains("expert_biases")) state.expert_biases = expert_biases_in(value.at("expert_biases"));
  state.global_batch = whole_number(value, "global_batch", 1, file);
  state.sequence = whole_number(value, "sequence", 1, file);
  state.seed = value.at("seed").as_uint64();
  state.shuffle = value.at("shuffle").as_bool();
  state.samples = whole_number(value, "samples", 1, file);
  state.data = value.at("data").as_uint64();
  return state;
}

CheckpointFormat format_in(const Json& value, const fs::path& file) {
  const Json& number = value.at("format");
  const bool known = number == 2 || number == 3 || number == 4;
  if (!known) {
    throw Error(ErrorKind::input,
                fmt::format("{}: checkpoint format {}, this program reads 2, 3 and 4; take another checkpoint", file.string(),
                            number.dump()));
  }
  const auto format = static_cast<CheckpointFormat>(static_cast<int>(number.as_double()));
  // A single damaged bit must not turn one format into the other.
  const bool has_checksums = value.contains("checksum") && value.contains("checksums");
  const bool has_some = value.contains("checksum") || value.contains("checksums");
  if (format != CheckpointFormat::without_checksums ? !has_checksums : has_some)
    refuse_checkpoint(file, "its checksums are damaged");
  return format;
}

}  // namespace

void write_manifest(const fs::path& file, const CheckpointManifest& manifest) {
  const CheckpointState& state = manifest.state;
  Json value = Json::object({{"format", static_cast<int>(CheckpointFormat::rank_files)},
                             {"checksum", std::string(checksum_digits, '0')},
                             {"step", state.step},
                             {"applied_steps", state.applied_steps},
                             {"optimizer", state.optimizer},
                             {"first_loss", state.first_loss}});
  if (!state.trained.all()) value["trained"] = to_string(state.trained);
  if (state.base) value["base"] = to_text(*state.base);
  if (state.base_form) value["base_form"] = base_form_in(Json(*state.base_form), file);
  if (!state.compression.empty()) value["compression"] = state.compression;
  if (state.last_loss) value["last_loss"] = *state.last_loss;
  if (state.loss_scale) value["loss_scale"] = to_json(*state.loss_scale);
  if (state.variance) value["variance"] = to_json(*state.variance);
  if (!state.expert_biases.empty()) value["expert_biases"] = to_json(state.expert_biases);
  value["global_batch"] = state.global_batch;
  value["sequence"] = state.sequence;
  value["seed"] = state.seed;
  value["shuffle"] = state.shuffle;
  value["samples"] = state.samples;
  value["data"] = state.data;
  value["checksums"] = to_json(manifest.checksums.value());
  std::string text = value.dump({.indent = 1, .order = JsonOrder::as_added}) + "\n";
  if (text.size() > most_bytes || value_count(value) > most_state_values)
    throw Error(
        ErrorKind::input,
        fmt::format(
            "{}: the model has more tensors than the state of a checkpoint can list ({} bytes, {} values); train a model "
            "of fewer layers",
            file.string(), most_bytes, most_state_values));
  const std::size_t place = own_checksum_place(text);
  text.replace(place, checksum_digits, own_checksum(text, place));
  OutputFile out(file);
  out.write(text.data(), text.size());
  out.sync();
}

CheckpointManifest read_manifest(const fs::path& file) {
  const std::string text = read_text(file, most_bytes);
  const std::size_t place = own_checksum_place(text);
  if (place != std::string::npos && text.substr(place, checksum_digits) != own_checksum(text, place))
    throw Error(ErrorKind::input, fmt::format("{}: differs from the saved one, by its own checksum; the file is damaged; take "
                                              "another checkpoint",
                                              file.string()));
  try {
    const Json value = parse_json(text, {file.string()}, {.depth = 6, .values = most_state_values});
    CheckpointManifest manifest;
    manifest.format = format_in(value, file);
    if (manifest.format != CheckpointFormat::without_checksums && place == std::string::npos)
      refuse_checkpoint(file, "its checksums are damaged");
    manifest.state = state_in(value, file);
    if (value.contains("checksums")) manifest.checksums = checksums_in(value.at("checksums"), file);
    return manifest;
  } catch (const JsonMisuse&) {
    refuse_checkpoint(file, "a key is missing, or has a wrong value");
  }
}

}  // namespace pipetrain
