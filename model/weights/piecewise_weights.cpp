#include "model/weights/piecewise_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "files/mapped_file.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/tensor_piece.hpp"
#include "model/weights/tensor_pieces.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view error_states = "gradient_";
constexpr std::string_view file_prefix = "rank-", file_suffix = ".safetensors";

// Errors of compressed gradients, which not all tensors have.
bool is_error_state(const std::string& state) { return state.starts_with(error_states); }

// The optimizer keeps no states of frozen tensors, and the weights of a model with adapters are elsewhere.
std::vector<NamedShape> tensors_of_state(const ModelConfig& config, const std::string& state) {
  std::vector<NamedShape> tensors = logical_tensors(config);
  if (state != weights_name || config.adapter.exists())
    std::erase_if(tensors, [](const NamedShape& tensor) { return !is_trained(tensor.group); });
  return tensors;
}

class PiecewiseTensors : public WeightSource {
 public:
  void add(LocatedPiece at) { tensors_[at.piece.tensor].add(std::move(at)); }

  void check(const ModelConfig& config, const std::string& state, const fs::path& where, StateShapes shapes) {
    folder_ = where;
    std::size_t known = 0;
    const bool own = shapes == StateShapes::own || is_error_state(state);
    if (own && state != weights_name) return check_own(config, state);
    for (const NamedShape& tensor : tensors_of_state(config, state)) {
      const auto found = tensors_.find(tensor.name);
      if (found == tensors_.end())
        throw Error(ErrorKind::input, fmt::format("{}: tensor {}/{} is in none of its files; take another checkpoint",
                                                  where.string(), state, tensor.name));
      found->second.check(tensor.shape);
      ++known;
    }
    if (known != tensors_.size()) refuse_unknown(config, state, where);
  }

  void load(const Parameter& parameter, float* out) const override { pieces_of(parameter).load(parameter, out); }
  bool pass_in_memory(const Parameter& parameter, const Region& elements, const TakeElements& take) const override {
    return pieces_of(parameter).pass_in_memory(parameter, elements, take);
  }

 private:
  const TensorPieces& pieces_of(const Parameter& parameter) const {
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end())
      throw Error(ErrorKind::input, fmt::format("{}: tensor {} is in none of its files; take another checkpoint",
                                                folder_.string(), parameter.name));
    return found->second;
  }
  void check_own(const ModelConfig& config, const std::string& state) {
    std::size_t known = 0;
    for (const NamedShape& tensor : tensors_of_state(config, state)) {
      const auto found = tensors_.find(tensor.name);
      if (found == tensors_.end()) continue;
      found->second.check_or_take(tensor.shape);
      ++known;
    }
    if (known != tensors_.size()) refuse_unknown(config, state, folder_);
  }
  [[noreturn]] void refuse_unknown(const ModelConfig& config, const std::string& state, const fs::path& where) const {
    auto unknown = tensors_;
    for (const NamedShape& tensor : tensors_of_state(config, state)) unknown.erase(tensor.name);
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {}/{} is not part of the model that config.json describes; take another "
                            "checkpoint",
                            where.string(), state, unknown.begin()->first));
  }

  fs::path folder_;
  std::map<std::string, TensorPieces> tensors_;
};

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("{}{:05}{}", file_prefix, rank, file_suffix); }

bool is_rank_file(const std::string& name) {
  if (!name.starts_with(file_prefix) || !name.ends_with(file_suffix)) return false;
  const std::string digits = name.substr(file_prefix.size(), name.size() - file_prefix.size() - file_suffix.size());
  return digits.size() >= 5 && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<fs::path> rank_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_rank_file(entry.path().filename().string())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

using States = std::map<std::string, std::shared_ptr<PiecewiseTensors>>;

// Maps the file, whose header is checked.
std::shared_ptr<const StoredPieces> mapped_pieces(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const SafetensorsReader header(path);
  header.check_coverage();
  auto store = std::make_shared<StoredPieces>();
  store->where = path.string();
  store->memory = file;
  for (const auto& [name, entry] : header.entries()) {
    if (entry.dtype != "F32" && read_piece_name(name))
      throw Error(ErrorKind::input, fmt::format("{}: tensor {}: has dtype {}, checkpoints have F32; take another checkpoint",
                                                path.string(), name, entry.dtype));
    store->pieces.push_back({name, entry.shape, file->bytes().data() + entry.begin});
  }
  return store;
}

std::vector<std::shared_ptr<const StoredPieces>> mapped_files(const std::vector<fs::path>& files) {
  std::vector<std::shared_ptr<const StoredPieces>> stores;
  for (const fs::path& path : files) stores.push_back(mapped_pieces(path));
  return stores;
}

States states_of(const std::vector<std::shared_ptr<const StoredPieces>>& stores) {
  States states;
  for (const auto& store : stores) {
    for (const StoredPieces::Piece& stored : store->pieces) {
      LocatedPiece at{store, &stored, read_piece_name(stored.name).value_or(TensorPiece{})};
      if (at.piece.tensor.empty()) refuse(at, "is not the name of a part of a tensor");
      auto& state = states[at.piece.state];
      if (!state) state = std::make_shared<PiecewiseTensors>();
      state->add(std::move(at));
    }
  }
  return states;
}

}  // namespace

std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(
    const ModelConfig& config, const std::vector<std::shared_ptr<const StoredPieces>>& stores, StateShapes shapes) {
  std::map<std::string, std::shared_ptr<const WeightSource>> sources;
  for (auto& [name, state] : states_of(stores)) {
    state->check(config, name, fs::path(stores.front()->where).parent_path(), shapes);
    sources[name] = std::move(state);
  }
  return sources;
}

std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(const ModelConfig& config,
                                                                            const std::vector<fs::path>& files,
                                                                            StateShapes shapes) {
  return piecewise_states(config, mapped_files(files), shapes);
}

std::shared_ptr<const WeightSource> piecewise_weights(const ModelConfig& config, const std::vector<fs::path>& files) {
  const States states = states_of(mapped_files(files));
  const auto found = states.find(std::string(weights_name));
  if (found == states.end()) return nullptr;
  found->second->check(config, found->first, files.front().parent_path(), StateShapes::of_weights);
  return found->second;
}

}  // namespace pipetrain
