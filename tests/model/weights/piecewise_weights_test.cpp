// Full tensors are read from pieces, however they were cut.
#include "model/weights/piecewise_weights.hpp"

#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/tensor_piece.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

TEST_CASE("a piece has one name, and the name one piece") {
  TensorPiece piece{"exp_avg", "model.layers.3.mlp.up_proj.weight"};
  CHECK(to_string(piece) == "exp_avg/model.layers.3.mlp.up_proj.weight");
  CHECK(read_piece_name(to_string(piece)) == piece);
  piece.axis = 1, piece.begin = 64, piece.end = 128, piece.transposed = true, piece.elements = TensorPiece::Range{0, 65536};
  CHECK(to_string(piece) == "exp_avg/model.layers.3.mlp.up_proj.weight[:,64:128].T{0:65536}");
  CHECK(read_piece_name(to_string(piece)) == piece);
  piece.axis = 0, piece.transposed = false;
  CHECK(to_string(piece) == "exp_avg/model.layers.3.mlp.up_proj.weight[64:128]{0:65536}");
  CHECK(read_piece_name(to_string(piece)) == piece);
  for (const char* wrong : {"",
                            "/",
                            "x",
                            "x/",
                            "/x",
                            "x/y/z",
                            "x/y[",
                            "x/y[]",
                            "x/y[1]",
                            "x/y[1:1]",
                            "x/y[2:1]",
                            "x/y[-1:2]",
                            "x/y[01:2]",
                            "x/y[1:2:3]",
                            "x/y[::,1:2]",
                            "x/y[1:2]]",
                            "x/y[[1:2]",
                            "x/y[1:2][3:4]",
                            "x/y{1:2}[3:4]",
                            "x/y{}",
                            "x/y{0:1}{1:2}",
                            "x/y.T.T",
                            "x/y.T[0:1]",
                            "x/y[0:99999999999999999999]",
                            "x/y[+1:2]",
                            "x/y[ 1:2]",
                            "x/y[1:2] "}) {
    INFO(wrong);
    CHECK_FALSE(read_piece_name(wrong));
  }
}

// The pieces of one state, assigned to files in rotation.
struct CutState {
  ModelConfig config;
  std::vector<std::vector<std::pair<NamedShape, std::vector<float>>>> files;

  void add(std::size_t file, const TensorPiece& piece, const Shape& shape, std::vector<float> values) {
    files.resize(std::max(files.size(), file + 1));
    files[file].emplace_back(NamedShape{to_string(piece), shape}, std::move(values));
  }
  std::vector<fs::path> write(const TempFolder& folder) const {
    std::vector<fs::path> paths;
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::vector<NamedShape> tensors;
      for (const auto& [tensor, values] : files[i]) tensors.push_back(tensor);
      paths.push_back(folder.path() / rank_file_name(static_cast<int>(i)));
      SafetensorsWriter writer(paths.back(), tensors);
      for (const auto& [tensor, values] : files[i]) writer.write(values.data());
      writer.finish();
    }
    return paths;
  }
};

// Cuts every matrix into `parts` along `axis`, and each part into two ranges of elements; vectors stay whole.
CutState cut(const ModelConfig& config, int parts, int axis, bool transposed) {
  CutState state{config, {}};
  const auto source = random_weights(config, 1);
  for (const NamedShape& tensor : logical_tensors(config)) {
    const std::vector<float> values = load(*source, whole(config, tensor));
    if (tensor.shape.rank() < 2) {
      state.add(0, {"weights", tensor.name}, tensor.shape, values);
      continue;
    }
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1], along = tensor.shape[axis];
    for (int part = 0; part < parts; ++part) {
      const std::int64_t begin = along * part / parts, end = along * (part + 1) / parts;
      std::vector<float> slice;
      const auto in_slice = [&](std::int64_t i) { return i >= begin && i < end; };
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const std::int64_t row = transposed ? i % rows : i / columns, column = transposed ? i / rows : i % columns;
        if (in_slice(axis == 0 ? row : column)) slice.push_back(values[static_cast<std::size_t>(row * columns + column)]);
      }
      const auto half = static_cast<std::int64_t>(slice.size() / 3);
      const auto all = static_cast<std::int64_t>(slice.size());
      for (const auto& [first, last] : {std::pair{half, all}, std::pair{std::int64_t{0}, half}}) {
        const TensorPiece piece{"weights", tensor.name, axis, begin, end, transposed, TensorPiece::Range{first, last}};
        state.add(static_cast<std::size_t>(part), piece, {last - first}, {slice.begin() + first, slice.begin() + last});
      }
    }
  }
  return state;
}

TEST_CASE("slices load from pieces that were cut in any other way") {
  const ModelConfig config = small_config(GENERATE(false, true));
  const int axis = GENERATE(0, 1), parts = GENERATE(1, 3);
  const bool transposed = GENERATE(false, true);
  INFO("axis " << axis << ", " << parts << " parts" << (transposed ? ", transposed" : ""));
  const TempFolder folder;
  const auto states = piecewise_states(config, cut(config, parts, axis, transposed).write(folder));
  REQUIRE(states.size() == 1);
  check_slices(*states.at("weights"), config);
  CHECK(load_all(*states.at("weights"), config) == load_all(*random_weights(config, 1), config));
}

TEST_CASE("pieces that do not make the model's tensors are refused, by file and tensor") {
  const ModelConfig config = small_config(false);
  CutState state = cut(config, 2, 0, false);
  const auto error = [&](const CutState& wrong) {
    const TempFolder folder;
    const auto paths = wrong.write(folder);
    return input_error([&] { piecewise_states(config, paths); });
  };
  CHECK(error(state).empty());
  using Catch::Matchers::Contains;
  const auto spoil = [&](std::size_t file, std::size_t place, const std::function<void(TensorPiece&)>& change) {
    CutState wrong = state;
    auto& [tensor, values] = wrong.files[file].at(place);
    TensorPiece piece = read_piece_name(tensor.name).value();
    change(piece);
    tensor.name = to_string(piece);
    return error(wrong);
  };
  CutState lacks = state;
  lacks.files[1].erase(lacks.files[1].begin());
  CHECK_THAT(error(lacks), Contains("is not all there"));
  lacks = state;
  lacks.files.pop_back();
  CHECK_THAT(error(lacks), Contains("the rest of it is in no file"));
  CutState twice = state;
  twice.files[1].push_back(state.files[0][0]);
  CHECK_THAT(error(twice), Contains("is there twice"));
  CHECK_THAT(spoil(0, 0, [](TensorPiece& piece) { piece.tensor = "other.weight"; }), Contains("is not all there"));
  CHECK_THAT(spoil(1, 1, [](TensorPiece& piece) { piece.axis = 1; }), Contains("another axis"));
  CHECK_THAT(spoil(1, 1, [](TensorPiece& piece) { piece.end += 1; }), Contains("does not fit the model"));
  CHECK_THAT(spoil(0, 0, [](TensorPiece& piece) { piece.transposed = true; }), Contains("differs from the other slices"));
  CHECK_THAT(spoil(0, 0, [](TensorPiece& piece) { piece.elements->last += 1; }),
             Contains("than its name says") || Contains("is not all there"));
  CutState unnamed = state;
  unnamed.files[0][0].first.name = "model.norm.weight";
  CHECK_THAT(error(unnamed), Contains("is not the name of a part of a tensor"));
}

}  // namespace
}  // namespace pipetrain
