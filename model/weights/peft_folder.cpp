#include "model/weights/peft_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "model/config/adapter_roles.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/families/family.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/quantisation/quantise.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft/peft_parameters.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// PEFT's name of a tensor in its files.
std::string peft_name(const std::string& name) { return "base_model.model." + name; }

// Takes what is trained from another source than the base.
class AdaptedWeights : public WeightSource {
 public:
  AdaptedWeights(std::shared_ptr<const WeightSource> base, std::shared_ptr<const WeightSource> trained)
      : base_(std::move(base)), trained_(std::move(trained)) {}
  void load(const Parameter& parameter, float* out) const override { source_of(parameter).load(parameter, out); }
  bool load_quantised(const Parameter& parameter, const QuantisedLayout& layout, std::byte* out) const override {
    return source_of(parameter).load_quantised(parameter, layout, out);
  }
  std::optional<NormalDraw> drawn(const Parameter& parameter) const override { return source_of(parameter).drawn(parameter); }

 private:
  const WeightSource& source_of(const Parameter& parameter) const { return is_trained(parameter.group) ? *trained_ : *base_; }

  std::shared_ptr<const WeightSource> base_, trained_;
};

// out (rows.local) = rows of a base's matrix as products read them, dequantised where the form is not plain.
void load_rows(const WeightSource& base, const Parameter& rows, WeightForm form, float* out) {
  if (form == WeightForm::plain) return base.load(rows, out);
  const QuantisedLayout layout = quantised_layout_of(rows, form);
  std::vector<std::byte> bytes(layout.bytes);
  if (!base.load_quantised(rows, layout, bytes.data())) {
    std::vector<float> whole(static_cast<std::size_t>(layout.full.elements()));
    base.load(whole_matrix(rows), whole.data());
    quantise(layout, whole, bytes.data());
  }
  read_values({layout, bytes.data()}, 0, layout.runs.elements(), out);
}

class NewAdapterWeights : public WeightSource {
 public:
  NewAdapterWeights(const ModelConfig& config, std::shared_ptr<const WeightSource> base, std::uint64_t seed)
      : base_(std::move(base)), drawn_(random_weights(config, seed)), form_(config.base_form) {
    if (!config.adapter.magnitudes) return;
    for (const Block& block : blocks_of(config))
      for (const TensorSpec& tensor : block_tensors(config, block))
        if (adapter_roles(tensor.role)) matrices_.emplace(module_of(tensor.name) + std::string(magnitude_end), tensor);
  }
  void load(const Parameter& parameter, float* out) const override {
    if (!is_of_adapter(parameter.role)) return base_->load(parameter, out);
    if (parameter.initialisation == Initialisation::row_norms) return load_norms(parameter, out);
    drawn_->load(parameter, out);
  }
  bool load_quantised(const Parameter& parameter, const QuantisedLayout& layout, std::byte* out) const override {
    return base_->load_quantised(parameter, layout, out);
  }

 private:
  // The magnitudes' slice has the rows of the matrix's.
  void load_norms(const Parameter& magnitudes, float* out) const {
    const TensorSpec& matrix = matrices_.at(magnitudes.name);
    Parameter rows;
    rows.name = matrix.name;
    rows.full = matrix.shape;
    rows.transposed = matrix.transposed;
    rows.initialisation = matrix.initialisation;
    rows.group = ParameterGroup::frozen;
    const std::int64_t inputs = matrix.shape[matrix.transposed ? 0 : 1], count = magnitudes.local[0];
    rows.local = {count, inputs};
    rows.begin = magnitudes.begin;
    if (magnitudes.split_axis >= 0) rows.split_axis = matrix.transposed ? 1 : 0;
    std::vector<float> values(static_cast<std::size_t>(count * inputs));
    load_rows(*base_, rows, form_, values.data());
    for (std::int64_t row = 0; row < count; ++row) {
      double squares = 0;
      for (std::int64_t i = row * inputs; i < (row + 1) * inputs; ++i)
        squares += static_cast<double>(values[static_cast<std::size_t>(i)]) * values[static_cast<std::size_t>(i)];
      out[row] = static_cast<float>(std::sqrt(squares));
    }
  }

  std::shared_ptr<const WeightSource> base_;
  std::unique_ptr<WeightSource> drawn_;
  WeightForm form_;                             // of the matrices
  std::map<std::string, TensorSpec> matrices_;  // by the names of their magnitudes
};

// True for a tensor of the layer of a further prediction, where the run does not train it.
bool is_of_untrained_layer(const ModelConfig& config, const std::string& name) {
  if (config.mtp.layers == 0 || config.mtp.is_trained()) return false;
  return name.starts_with(peft_name(fmt::format("{}{}.", spec_of(config.family).names.layers, config.layers)));
}

class PeftWeights : public WeightSource {
 public:
  PeftWeights(const ModelConfig& config, const fs::path& file) : reader_(file), places_(config) {
    std::set<std::string> known;
    const auto tensors = logical_tensors(config);
    for (const std::size_t i : trained_tensors(config)) {
      const PeftPlace* const place = places_.find(tensors[i].name);
      const std::string name = peft_name(place == nullptr ? tensors[i].name : place->tensor);
      if (known.insert(name).second) reader_.check(name, place == nullptr ? tensors[i].shape : place->shape);
    }
    for (const auto& [name, entry] : reader_.entries())
      if (!known.contains(name) && !is_of_untrained_layer(config, name))
        throw Error(ErrorKind::input,
                    fmt::format("{}: tensor {} is not part of the adapter that {} describes; give the files of "
                                "one adapter",
                                file.string(), name, peft_config_file));
    reader_.check_coverage();
  }
  void load(const Parameter& parameter, float* out) const override {
    const PeftPlace* const place = places_.find(parameter.name);
    const auto values = place == nullptr ? nullptr : tensor_of_all(*place);
    read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
      if (place == nullptr) return reader_.read(peft_name(parameter.name), first, count, to);
      for (std::int64_t i = 0; i < count; ++i) to[i] = (*values)[static_cast<std::size_t>(place->index_of(first + i))];
    });
  }

 private:
  using Values = std::shared_ptr<const std::vector<float>>;

  // Returns the tensor of all experts. The experts are loaded one after the other, so that the last tensor is kept.
  Values tensor_of_all(const PeftPlace& place) const {
    const std::lock_guard lock(mutex_);
    if (last_name_ == place.tensor) return last_;
    std::vector<float> values(static_cast<std::size_t>(place.shape.elements()));
    reader_.read(peft_name(place.tensor), 0, place.shape.elements(), values.data());
    last_name_ = place.tensor;
    return last_ = std::make_shared<const std::vector<float>>(std::move(values));
  }

  SafetensorsReader reader_;
  PeftPlaces places_;
  mutable std::mutex mutex_;  // of the last tensor of all experts
  mutable std::string last_name_;
  mutable Values last_;
};

// One tensor of the file, which holds one tensor of the model, or one of each expert at these places.
struct StoredAdapter {
  NamedShape stored;
  std::vector<std::pair<std::size_t, const PeftPlace*>> parts;  // the number of the model's tensor, and its place if it has one
};

// Returns the tensors in the order of PEFT's own files, so that equal adapters are equal files.
std::vector<StoredAdapter> stored_adapters(const ModelConfig& config, const PeftPlaces& places) {
  const auto all = logical_tensors(config);
  std::map<std::string, StoredAdapter> stored;
  for (const std::size_t i : trained_tensors(config)) {
    const PeftPlace* const place = places.find(all[i].name);
    const NamedShape tensor{peft_name(place == nullptr ? all[i].name : place->tensor),
                            place == nullptr ? all[i].shape : place->shape};
    stored.try_emplace(tensor.name, StoredAdapter{tensor, {}}).first->second.parts.emplace_back(i, place);
  }
  std::vector<StoredAdapter> in_order;
  for (auto& [name, one] : stored) in_order.push_back(std::move(one));
  return in_order;
}

// out = the tensor of the file. fill(i, out) writes tensor i of the model.
void fill_stored(const StoredAdapter& stored, const std::function<void(std::size_t, float*)>& fill, float* out) {
  for (const auto& [number, place] : stored.parts) {
    if (place == nullptr) return fill(number, out);
    std::vector<float> values(static_cast<std::size_t>(place->one.elements()));
    fill(number, values.data());
    for (std::int64_t i = 0; i < place->one.elements(); ++i) out[place->index_of(i)] = values[static_cast<std::size_t>(i)];
  }
}

void write_adapter_config(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.sync();
}

}  // namespace

std::unique_ptr<WeightSource> adapted_weights(std::shared_ptr<const WeightSource> base,
                                              std::shared_ptr<const WeightSource> trained) {
  return std::make_unique<AdaptedWeights>(std::move(base), std::move(trained));
}

std::unique_ptr<WeightSource> new_adapter_weights(const ModelConfig& config, std::shared_ptr<const WeightSource> base,
                                                  std::uint64_t seed) {
  return std::make_unique<NewAdapterWeights>(config, std::move(base), seed);
}

std::shared_ptr<const WeightSource> peft_weights(const ModelConfig& config, const fs::path& folder) {
  return std::make_shared<PeftWeights>(config, folder / peft_weights_file);
}

std::vector<std::size_t> trained_tensors(const ModelConfig& config) {
  const auto tensors = logical_tensors(config);
  std::vector<std::size_t> trained;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (is_trained(tensors[i].group)) trained.push_back(i);
  return trained;
}

void save_peft_folder(const ModelConfig& config, const fs::path& folder, const std::string& base,
                      const std::function<void(std::size_t, float*)>& fill, const ModelFolderOptions& options) {
  const PeftPlaces places(config);
  const std::vector<StoredAdapter> stored = stored_adapters(config, places);
  std::vector<NamedShape> tensors;
  for (const StoredAdapter& one : stored) tensors.push_back(one.stored);
  save_model_folder(folder, options.companions, [&](const fs::path& path) {
    write_adapter_config(path / peft_config_file, peft_config_text(config, base));
    write_tensors(
        path / peft_weights_file, tensors, [&](std::size_t i, float* out) { fill_stored(stored[i], fill, out); }, options.type);
  });
}

}  // namespace pipetrain
