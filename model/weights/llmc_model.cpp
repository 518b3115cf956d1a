#include "model/weights/llmc_model.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "model/families/family.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/finite_values.hpp"
#include "model/weights/float_reading.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t model_magic = 20240326;
constexpr std::int32_t version_fp32 = 3, version_bf16 = 5;
constexpr std::size_t header_numbers = 256;
constexpr std::int64_t most_width = 1 << 20;  // with the other limits, counts of elements fit 62 bits

using Header = std::array<std::int32_t, header_numbers>;

class LlmcFile {
 public:
  // The location of a tensor in the file.
  struct TensorLocation {
    std::uint64_t begin = 0;  // its first element, counted over all of the file
    bool transposed = false;  // [outputs, inputs]
  };

  explicit LlmcFile(const fs::path& path) : file_(path) {
    read_header();
    place_tensors();
    const std::uint64_t bytes = sizeof(Header) + elements_ * bytes_of(type_);
    if (file_.size() != bytes)
      refuse(fmt::format("has {} bytes, a model of the sizes in its header {}: cut short, or damaged; copy the file again",
                         file_.size(), bytes));
  }

  const ModelConfig& config() const { return config_; }
  const fs::path& path() const { return file_.path(); }
  const TensorLocation* find(const std::string& name) const {
    const auto found = locations_.find(name);
    return found == locations_.end() ? nullptr : &found->second;
  }
  void read(const TensorLocation& location, std::int64_t first, std::int64_t count, float* out) const {
    read_floats(file_, type_, sizeof(Header) + (location.begin + static_cast<std::uint64_t>(first)) * bytes_of(type_), count,
                out);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}", file_.path().string(), what));
  }

  void read_header() {
    Header header{};
    if (file_.size() < sizeof header) refuse("is too short for a model file of llm.c; get the whole file");
    file_.read_at(0, header.data(), sizeof header);
    if (header[0] != model_magic)
      refuse(fmt::format("is not a model file of llm.c, which begins with the number {}; give one, or a Hugging Face folder",
                         model_magic));
    if (header[1] != version_fp32 && header[1] != version_bf16)
      refuse(
          fmt::format("is of version {} of llm.c's model files; 3 (fp32) and 5 (bf16) are read; write it again with llm.c's "
                      "train_gpt2.py",
                      header[1]));
    type_ = header[1] == version_fp32 ? SavedType::fp32 : SavedType::bf16;
    const auto size = [&](std::size_t at, const char* name, std::int64_t most) {
      if (header[at] < 1 || header[at] > most)
        refuse(
            fmt::format("its header has {} {}; damaged, or not a model file of llm.c; copy the file again", header[at], name));
      return std::int64_t{header[at]};
    };
    constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();
    config_ = family_config(Family::gpt2);
    config_.max_positions = size(2, "positions", any);
    config_.vocabulary = size(3, "tokens", any);
    config_.layers = size(4, "layers", most_layers);
    config_.heads = config_.kv_heads = size(5, "heads", most_width);
    config_.hidden = size(6, "channels", most_width);
    rows_ = size(7, "rows of tokens", any);
    if (config_.hidden % config_.heads != 0)
      refuse(fmt::format("its header has {} channels for {} heads, which do not divide them; damaged: copy the file again",
                         config_.hidden, config_.heads));
    if (rows_ < config_.vocabulary)
      refuse(fmt::format("its header has {} rows for {} tokens; damaged: copy the file again", rows_, config_.vocabulary));
    config_.head_dim = config_.hidden / config_.heads;
    config_.intermediate = 4 * config_.hidden;
    config_.tied_embeddings = true;
    constexpr std::int64_t gpt2_vocabulary = 50257;
    if (config_.vocabulary != gpt2_vocabulary) return;
    config_.bos_id = gpt2_vocabulary - 1;
    config_.eos_ids = {gpt2_vocabulary - 1};
  }

  void place_tensors() {
    const std::int64_t width = config_.hidden, inner = config_.intermediate;
    add("transformer.wte.weight", rows_ * width, false);
    add("transformer.wpe.weight", config_.max_positions * width, false);
    add_norm("ln_1", width);
    add_matrix("attn.c_attn", width, 3 * width);
    add_matrix("attn.c_proj", width, width);
    add_norm("ln_2", width);
    add_matrix("mlp.c_fc", width, inner);
    add_matrix("mlp.c_proj", inner, width);
    add("transformer.ln_f.weight", width, false);
    add("transformer.ln_f.bias", width, false);
  }
  void add_norm(const char* name, std::int64_t width) {
    add_layers(fmt::format("{}.weight", name), width, false);
    add_layers(fmt::format("{}.bias", name), width, false);
  }
  void add_matrix(const char* name, std::int64_t inputs, std::int64_t outputs) {
    add_layers(fmt::format("{}.weight", name), inputs * outputs, true);
    add_layers(fmt::format("{}.bias", name), outputs, false);
  }
  void add_layers(const std::string& name, std::int64_t elements, bool transposed) {
    for (std::int64_t layer = 0; layer < config_.layers; ++layer)
      add(fmt::format("transformer.h.{}.{}", layer, name), elements, transposed);
  }
  void add(const std::string& name, std::int64_t elements, bool transposed) {
    locations_[name] = {elements_, transposed};
    elements_ += static_cast<std::uint64_t>(elements);
  }

  InputFile file_;
  SavedType type_ = SavedType::fp32;
  ModelConfig config_;
  std::int64_t rows_ = 0;  // of the table of tokens
  std::map<std::string, TensorLocation> locations_;
  std::uint64_t elements_ = 0;
};

// Returns the same slice of the tensor's transpose.
Parameter transpose_of(Parameter parameter) {
  parameter.full = {parameter.full[1], parameter.full[0]};
  if (parameter.split_axis >= 0) parameter.split_axis = 1 - parameter.split_axis;
  parameter.transposed = !parameter.transposed;
  return parameter;
}

class LlmcWeights : public WeightSource {
 public:
  LlmcWeights(const fs::path& path, std::unique_ptr<WeightSource> new_head) : file_(path), new_head_(std::move(new_head)) {}

  void load(const Parameter& parameter, float* out) const override {
    if (new_head_ && parameter.name == classifier_head) return new_head_->load(parameter, out);
    const LlmcFile::TensorLocation* location = file_.find(parameter.name);
    if (location == nullptr)
      throw Error(ErrorKind::input,
                  fmt::format("{}: tensor {} is missing; give the whole model's file", file_.path().string(), parameter.name));
    read_slice(location->transposed ? transpose_of(parameter) : parameter, out,
               [&](std::int64_t first, std::int64_t count, float* to) { file_.read(*location, first, count, to); });
    check_finite({out, static_cast<std::size_t>(parameter.local.elements())}, file_.path(), parameter.name);
  }

 private:
  LlmcFile file_;
  std::unique_ptr<WeightSource> new_head_;
};

}  // namespace

bool is_llmc_model(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  try {
    const InputFile input(file);
    std::int32_t magic = 0;
    if (input.size() < sizeof magic) return false;
    input.read_at(0, &magic, sizeof magic);
    return magic == model_magic;
  } catch (const Error&) {  // the reader of the file will report why it cannot be read
    return false;
  }
}

ModelConfig read_llmc_config(const fs::path& file) { return LlmcFile(file).config(); }

std::unique_ptr<WeightSource> llmc_weights(const fs::path& file, std::unique_ptr<WeightSource> new_head) {
  return std::make_unique<LlmcWeights>(file, std::move(new_head));
}

}  // namespace pipetrain
