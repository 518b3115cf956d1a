#include <cstring>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "core/error.hpp"
#include "model/config/config.hpp"
#include "model/families/config_report.hpp"
#include "model/weights/llmc_model.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t data_bytes = 64;

std::string with_header_length(const std::string& header, std::uint64_t length, std::size_t data) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(data, '\x3f');
}

// The seeds are header texts; this puts the length in front and data at the end, both sometimes wrong.
std::string safetensors_file(Random& random, std::string header) {
  std::string file = with_header_length(header, header.size(), data_bytes);
  if (random.one_in(16)) mutate_bytes(random, file);
  return file;
}

void read_safetensors(const fs::path& file) {
  const SafetensorsReader reader(file);
  float values[data_bytes];
  for (const auto& [name, entry] : reader.entries()) {
    const std::uint64_t bytes = entry.end - entry.begin;
    const bool is_float = entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
    if (is_float && bytes > 0 && bytes <= data_bytes)
      reader.read(name, 0, static_cast<std::int64_t>(bytes / (entry.dtype == "F32" ? 4 : 2)), values);
  }
  reader.check_coverage();
}

Target safetensors_target(const fs::path& folder) {
  const fs::path file = folder / "x.safetensors";
  Target target{"safetensors",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  read_safetensors(file);
                },
                safetensors_file};
  target.seeds = {
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},"b":{"dtype":"BF16","shape":[16],"data_offsets":[32,64]}})",
      R"({"w":{"dtype":"F16","shape":[32],"data_offsets":[0,64]}}    )",
      R"({"a":{"dtype":"I64","shape":[1,1,4],"data_offsets":[0,32]},"empty":{"dtype":"U8","shape":[0,9],"data_offsets":[32,32]},"c":{"dtype":"BOOL","shape":[32],"data_offsets":[32,64]}})",
      "{}"};
  target.dictionary = {"\"dtype\"", "\"shape\"",   "\"data_offsets\"", "\"__metadata__\"",
                       "\"F64\"",   "\"F8_E4M3\"", "\"F31\"",          "[0,64]"};
  return target;
}

ModelConfig small_model() {
  ModelConfig config;
  config.hidden = config.head_dim = 4;
  config.heads = config.kv_heads = config.layers = 1;
  config.intermediate = config.vocabulary = config.max_positions = 4;
  config.tied_embeddings = true;
  return config;
}

Target index_target(const fs::path& root) {
  const fs::path folder = root / "sharded", index = folder / "model.safetensors.index.json";
  fs::create_directories(folder);
  const ModelConfig config = small_model();
  const std::vector<NamedShape> tensors = logical_tensors(config);
  write_tensors(folder / "shard.safetensors", tensors, [](std::size_t, float*) {});
  std::string map;
  for (const NamedShape& tensor : tensors) map += (map.empty() ? "\"" : ",\n  \"") + tensor.name + "\": \"shard.safetensors\"";
  Target target{"index",
                {},
                {},
                [=](std::string_view input) {
                  put_file(index, input);
                  hf_weights(config, folder);
                },
                nullptr};
  target.seeds = {"{\"metadata\": {\"total_size\": 1},\n \"weight_map\": {\n  " + map + "\n }}\n", "{\"weight_map\": {}}"};
  target.dictionary = {"\"weight_map\"", "\"../shard.safetensors\"", "\"lm_head.weight\"", "\"none.safetensors\"", "\".\""};
  return target;
}

struct LlmcHeader {
  std::int32_t magic = 20240326, version = 3, positions = 4, vocabulary = 5, layers = 1, heads = 2, width = 4, rows = 8;
};

// Returns the bytes of a model of llm.c, including the header; 0 for sizes that are not small.
std::size_t llmc_bytes(const LlmcHeader& header) {
  for (const std::int32_t size : {header.positions, header.layers, header.width, header.rows})
    if (size < 1 || size > 64) return 0;
  const auto width = static_cast<std::size_t>(header.width);
  const std::size_t layer = 4 * width + 12 * width * width + 9 * width;  // norms, matrices, the matrices' biases
  const auto rows = static_cast<std::size_t>(header.rows + header.positions);
  const std::size_t elements = rows * width + static_cast<std::size_t>(header.layers) * layer + 2 * width;
  return 256 * sizeof(std::int32_t) + elements * (header.version == 3 ? 4 : 2);
}

// Most changes of the header change the length that the file must have.
std::string llmc_model_file(Random& random, std::string file) {
  LlmcHeader header;
  if (file.size() < sizeof header || random.one_in(4)) return file;
  std::memcpy(&header, file.data(), sizeof header);
  if (const std::size_t bytes = llmc_bytes(header); bytes > 0) file.resize(bytes);
  return file;
}

Target llmc_model_target(const fs::path& root) {
  const fs::path file = root / "model.bin";
  Target target{"llmc-model",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  const ModelConfig config = read_llmc_config(file);
                  const auto weights = llmc_weights(file, nullptr);
                  for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, 0, 1).parameters) {
                    std::vector<float> values(static_cast<std::size_t>(parameter.local.elements()));
                    weights->load(parameter, values.data());
                  }
                },
                llmc_model_file};
  for (const std::int32_t version : {3, 5}) {
    const LlmcHeader header{.version = version};
    std::string bytes(llmc_bytes(header), '\1');
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memset(bytes.data() + sizeof header, 0, 256 * sizeof(std::int32_t) - sizeof header);
    target.seeds.push_back(bytes);
  }
  return target;
}

// Returns a config.json of a small model with this type and these members, as a text.
std::string small_config_text(const std::string& type, const std::string& members) {
  return R"({"model_type":")" + type +
         R"(","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,)"
         R"("intermediate_size":176,"vocab_size":320,"max_position_embeddings":128,"rms_norm_eps":1e-05,)" +
         members + "}";
}

// Returns configurations with every kind of rotation, of windows and of layers.
std::vector<std::string> config_seeds() {
  std::vector<std::string> seeds{
      small_config_text("llama", R"("rope_scaling":{"type":"linear","factor":4.0},"attention_bias":true,"mlp_bias":true)"),
      small_config_text("llama", R"("rope_scaling":{"rope_type":"dynamic","factor":2.0},"partial_rotary_factor":0.5)"),
      small_config_text("llama", R"("rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32,)"
                                 R"("beta_fast":32,"beta_slow":1,"mscale":1.0,"mscale_all_dim":0.7,"truncate":false})"),
      small_config_text("llama", R"("original_max_position_embeddings":64,"rope_scaling":{"type":"longrope",)"
                                 R"("short_factor":[1,1.5,2,2.5,3,3.5,4,5],"long_factor":[1,2,3,4,5,6,7,8]})"),
      small_config_text("llama", R"("layer_types":["full_attention","full_attention"],"rope_parameters":{"full_attention":)"
                                 R"({"rope_type":"llama3","rope_theta":500000.0,"factor":8.0,"low_freq_factor":1.0,)"
                                 R"("high_freq_factor":4.0,"original_max_position_embeddings":8192}})"),
      small_config_text("qwen2", R"("use_sliding_window":true,"sliding_window":16,"max_window_layers":1)"),
      small_config_text("qwen3", R"("layer_types":["full_attention","sliding_attention"],"sliding_window":8,)"
                                 R"("use_sliding_window":true,"attention_bias":false,"rope_theta":1000000)"),
      small_config_text("mistral", R"("sliding_window":16,"attention_dropout":0.1,"eos_token_id":[2,3],"pad_token_id":-1)"),
      small_config_text("gemma3_text", R"("query_pre_attn_scalar":16,"sliding_window_pattern":2,"sliding_window":16,)"
                                       R"("rope_local_base_freq":10000.0,"rope_scaling":{"rope_type":"linear","factor":8.0})"),
      R"({"model_type":"gemma3","architectures":["Gemma3ForConditionalGeneration"],"text_config":{"hidden_size":64,)"
      R"("num_hidden_layers":2,"sliding_window":64,"model_type":"gemma3_text"},"vision_config":{"hidden_size":16},)"
      R"("eos_token_id":[1,106],"mm_tokens_per_image":256,"image_token_index":262144,"torch_dtype":"bfloat16"})"};
  for (const char* preset : {"tiny", "gpt2", "llama3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b", "mistral-7b", "gemma3-1b"})
    seeds.push_back(hf_config_text(preset_config(preset)));
  return seeds;
}

// The report and the reader must agree on what is refused.
void read_and_report(const fs::path& folder) {
  const bool refuses = !report_config(folder).refused.empty();
  try {
    hf_config_text(read_hf_config(folder));
  } catch (const Error&) {
    if (!refuses) throw std::logic_error("the report accepts what the reader refuses");
    throw;
  }
  if (refuses) throw std::logic_error("the report refuses what the reader accepts");
}

Target config_target(const fs::path& root) {
  const fs::path folder = root / "model";
  fs::create_directories(folder);
  Target target{"config",
                {},
                {},
                [folder](std::string_view input) {
                  put_file(folder / "config.json", input);
                  read_and_report(folder);
                },
                nullptr};
  target.seeds = config_seeds();
  target.dictionary = {"\"llama\"",
                       "\"gpt2\"",
                       "\"LlamaForCausalLM\"",
                       "\"rope_scaling\"",
                       "\"rope_parameters\"",
                       "\"linear\"",
                       "\"llama3\"",
                       "\"yarn\"",
                       "\"full_attention\"",
                       "\"sliding_attention\"",
                       "\"layer_types\"",
                       "\"n_inner\"",
                       "\"head_dim\"",
                       "\"num_key_value_heads\"",
                       "\"partial_rotary_factor\"",
                       "\"quantization_config\"",
                       "\"longrope\"",
                       "\"dynamic\"",
                       "\"qwen2\"",
                       "\"qwen3\"",
                       "\"mistral\"",
                       "\"gemma3\"",
                       "\"gemma3_text\"",
                       "\"text_config\"",
                       "\"sliding_window\"",
                       "\"use_sliding_window\"",
                       "\"tie_word_embeddings\"",
                       "\"rope_theta\"",
                       "\"factor\"",
                       "null",
                       "\"eos_token_id\"",
                       "[1,2]"};
  return target;
}

}  // namespace

std::vector<Target> model_targets(const fs::path& folder) {
  return {safetensors_target(folder), index_target(folder), llmc_model_target(folder), config_target(folder)};
}

}  // namespace pipetrain::fuzz
