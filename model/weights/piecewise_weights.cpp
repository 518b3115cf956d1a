#include "model/weights/piecewise_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "files/mapped_file.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/tensor_piece.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view weights_name = "weights";
constexpr std::string_view error_states = "gradient_";
constexpr std::string_view file_prefix = "rank-", file_suffix = ".safetensors";

// Errors of compressed gradients, which not all tensors have.
bool is_error_state(const std::string& state) { return state.starts_with(error_states); }

// A rectangle of a logical tensor; a vector has one column.
struct Rectangle {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
};

Rectangle rectangle_of(const Shape& full, int axis, std::int64_t begin, std::int64_t end) {
  Rectangle all{0, full.rank() > 0 ? full[0] : 1, 0, full.rank() > 1 ? full[1] : 1};
  if (axis == 0) std::tie(all.row, all.rows) = std::pair(begin, end - begin);
  if (axis == 1) std::tie(all.column, all.columns) = std::pair(begin, end - begin);
  return all;
}

Rectangle common(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row), column = std::max(a.column, b.column);
  return {row, std::max<std::int64_t>(0, std::min(a.row + a.rows, b.row + b.rows) - row), column,
          std::max<std::int64_t>(0, std::min(a.column + a.columns, b.column + b.columns) - column)};
}

// A dense slice in memory or in a file: row-major, or, if transposed, column-major.
struct Storage {
  Rectangle place;
  bool transposed = false;

  std::int64_t lines() const { return transposed ? place.columns : place.rows; }
  std::int64_t line() const { return transposed ? place.rows : place.columns; }  // elements of a line
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    row -= place.row;
    column -= place.column;
    return transposed ? column * place.rows + row : row * place.columns + column;
  }
};

// Calls run(first in `from`, first in `to`, step in `to`, count) for ranges of elements that are contiguous in `from`.
template <class Run>
void for_each_common_run(const Storage& from, const Storage& to, Run run) {
  const Rectangle both = common(from.place, to.place);
  if (both.elements() == 0) return;
  const std::int64_t lines = from.transposed ? both.columns : both.rows, count = from.transposed ? both.rows : both.columns;
  const bool same = from.transposed == to.transposed;
  if (same && count == from.line() && count == to.line())
    return run(from.at(both.row, both.column), to.at(both.row, both.column), 1, both.elements());
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t row = both.row + (from.transposed ? 0 : line), column = both.column + (from.transposed ? line : 0);
    run(from.at(row, column), to.at(row, column), same ? 1 : to.line(), count);
  }
}

bool is_finite(float value) { return std::isfinite(value); }

struct RankFile {
  explicit RankFile(const fs::path& path) : bytes(path), header(path) {}
  MappedFile bytes;
  SafetensorsReader header;
};

// The location of a piece.
struct Located {
  std::shared_ptr<const RankFile> file;
  std::string name;     // name in the file
  std::uint64_t begin;  // byte in the file
  TensorPiece piece;
};

[[noreturn]] void refuse(const Located& at, const std::string& what) {
  throw Error(ErrorKind::input,
              fmt::format("{}: tensor {}: {}; take another checkpoint", at.file->header.path().string(), at.name, what));
}

std::int64_t stored_elements(const Located& at) {
  std::int64_t count = 1;
  for (const std::int64_t dim : at.file->header.entries().at(at.name).shape) count *= dim;
  return count;
}

// The pieces of one logical tensor, which together hold each element once.
class Pieces {
 public:
  void add(Located at) { pieces_.push_back(std::move(at)); }

  // Sorts the pieces, and throws if elements are missing, held twice or beyond the tensor.
  void check(const Shape& full) {
    full_ = full;
    std::sort(pieces_.begin(), pieces_.end(), [](const Located& a, const Located& b) { return order(a) < order(b); });
    std::int64_t covered = 0;  // elements along the axis
    for (std::size_t i = 0; i < pieces_.size();) covered = check_slice(i, covered);
    if (covered != axis_end(pieces_.front())) refuse(pieces_.back(), "the rest of it is in no file");
  }

  // Checks the pieces of a tensor of this shape, or a single piece, whose shape the tensor has.
  void check_or_take(const Shape& full) {
    const TensorPiece& piece = pieces_.front().piece;
    if (pieces_.size() > 1 || piece.axis >= 0 || piece.elements) return check(full);
    const auto& dims = pieces_.front().file->header.entries().at(pieces_.front().name).shape;
    if (dims.empty() || dims.size() > 2 || (piece.transposed && dims.size() != 2))
      refuse(pieces_.front(), "is neither a vector nor a matrix");
    full_ = dims.size() == 1 ? Shape{dims[0]} : piece.transposed ? Shape{dims[1], dims[0]} : Shape{dims[0], dims[1]};
  }

  void load(const Parameter& wanted, float* out) const {
    if (!(wanted.full == full_)) refuse(pieces_.front(), fmt::format("is of shape {} there", to_string(full_)));
    const std::int64_t length = wanted.split_axis < 0 ? 0 : slice_length(wanted);
    const Storage to{rectangle_of(full_, wanted.split_axis, wanted.begin, wanted.begin + length), wanted.transposed};
    for (const Located& at : pieces_) {
      const Storage from = storage(at);
      const TensorPiece::Range held = at.piece.elements.value_or(TensorPiece::Range{0, from.place.elements()});
      const char* const values = at.file->bytes.bytes().data() + at.begin;
      for_each_common_run(from, to, [&](std::int64_t first, std::int64_t target, std::int64_t step, std::int64_t count) {
        const std::int64_t begin = std::max(first, held.first), end = std::min(first + count, held.last);
        if (begin >= end) return;
        const char* source = values + static_cast<std::size_t>(begin - held.first) * sizeof(float);
        float* target_at = out + target + (begin - first) * step;
        bool finite = true;
        if (step == 1) {
          std::memcpy(target_at, source, static_cast<std::size_t>(end - begin) * sizeof(float));
          finite = std::all_of(target_at, target_at + (end - begin), is_finite);
        } else {
          for (std::int64_t i = begin; i < end; ++i, source += sizeof(float), target_at += step) {
            std::memcpy(target_at, source, sizeof(float));
            finite = finite && is_finite(*target_at);
          }
        }
        if (!finite && at.piece.state == weights_name) refuse(at, "holds values that are not finite");
      });
    }
  }

 private:
  static std::tuple<std::int64_t, std::int64_t> order(const Located& at) {
    return {at.piece.begin, at.piece.elements ? at.piece.elements->first : 0};
  }
  static std::int64_t slice_length(const Parameter& wanted) {
    return wanted.local[wanted.transposed ? 1 - wanted.split_axis : wanted.split_axis];
  }
  std::int64_t axis_end(const Located& at) const { return at.piece.axis < 0 ? 1 : full_[at.piece.axis]; }
  Storage storage(const Located& at) const {
    return {rectangle_of(full_, at.piece.axis, at.piece.begin, at.piece.end), at.piece.transposed};
  }

  // Checks the pieces of the slice that begins with pieces_[i], and moves i to the next slice's first piece.
  // Returns where the next slice must begin.
  std::int64_t check_slice(std::size_t& i, std::int64_t covered) const {
    const Located& first = pieces_[i];
    const TensorPiece& piece = first.piece;
    if (piece.axis != pieces_.front().piece.axis) refuse(first, "is cut along another axis than the others");
    if (piece.axis >= full_.rank() || piece.end > axis_end(first) || (piece.transposed && full_.rank() != 2))
      refuse(first, fmt::format("does not fit the model, whose tensor is {}", to_string(full_)));
    const std::int64_t begin = piece.axis < 0 ? 0 : piece.begin;
    if (begin != covered) refuse(first, begin < covered ? "is there twice" : "the elements before it are in no file");
    const std::int64_t slice = storage(first).place.elements();
    std::int64_t held = 0;
    for (; i < pieces_.size() && pieces_[i].piece.begin == piece.begin; ++i) {
      const Located& at = pieces_[i];
      const auto range = at.piece.elements.value_or(TensorPiece::Range{0, slice});
      if (at.piece.axis != piece.axis || at.piece.end != piece.end || at.piece.transposed != piece.transposed)
        refuse(at, "differs from the other slices that begin there");
      if (range.first != held || range.last > slice) refuse(at, range.first < held ? "is there twice" : "is not all there");
      if (stored_elements(at) != range.last - range.first) refuse(at, "has another number of elements than its name says");
      held = range.last;
    }
    if (held != slice) refuse(first, "is not all there");
    return piece.axis < 0 ? 1 : piece.end;
  }

  Shape full_;
  std::vector<Located> pieces_;
};

// The optimizer keeps no states of frozen tensors, and the weights of a model with adapters are elsewhere.
std::vector<NamedShape> tensors_of_state(const ModelConfig& config, const std::string& state) {
  std::vector<NamedShape> tensors = logical_tensors(config);
  if (state != weights_name || config.adapter.exists())
    std::erase_if(tensors, [](const NamedShape& tensor) { return !is_trained(tensor.group); });
  return tensors;
}

class PiecewiseTensors : public WeightSource {
 public:
  void add(Located at) { tensors_[at.piece.tensor].add(std::move(at)); }

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

  void load(const Parameter& parameter, float* out) const override {
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end())
      throw Error(ErrorKind::input, fmt::format("{}: tensor {} is in none of its files; take another checkpoint",
                                                folder_.string(), parameter.name));
    found->second.load(parameter, out);
  }

 private:
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
  std::map<std::string, Pieces> tensors_;
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

States read_states(const std::vector<fs::path>& files) {
  States states;
  for (const fs::path& path : files) {
    const auto file = std::make_shared<const RankFile>(path);
    file->header.check_coverage();
    for (const auto& [name, entry] : file->header.entries()) {
      Located at{file, name, entry.begin, read_piece_name(name).value_or(TensorPiece{})};
      if (at.piece.tensor.empty()) refuse(at, "is not the name of a part of a tensor");
      if (entry.dtype != "F32") refuse(at, fmt::format("has dtype {}, checkpoints have F32", entry.dtype));
      auto& state = states[at.piece.state];
      if (!state) state = std::make_shared<PiecewiseTensors>();
      state->add(std::move(at));
    }
  }
  return states;
}

}  // namespace

std::map<std::string, std::shared_ptr<const WeightSource>> piecewise_states(const ModelConfig& config,
                                                                            const std::vector<fs::path>& files,
                                                                            StateShapes shapes) {
  std::map<std::string, std::shared_ptr<const WeightSource>> sources;
  for (auto& [name, state] : read_states(files)) {
    state->check(config, name, files.front().parent_path(), shapes);
    sources[name] = std::move(state);
  }
  return sources;
}

std::shared_ptr<const WeightSource> piecewise_weights(const ModelConfig& config, const std::vector<fs::path>& files) {
  const States states = read_states(files);
  const auto found = states.find(std::string(weights_name));
  if (found == states.end()) return nullptr;
  found->second->check(config, found->first, files.front().parent_path(), StateShapes::of_weights);
  return found->second;
}

}  // namespace pipetrain
