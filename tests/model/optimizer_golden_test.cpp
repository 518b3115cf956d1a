// Seven steps of each optimizer on small tensors, compared with its reference in float64 (tests/golden/optimizers). A tensor
// that is stored by columns gives the same weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "core/device.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/weights/raw_folder.hpp"
#include "ops/eight_bit.hpp"

namespace pipetrain::test {
namespace {

const nlohmann::json& optimizer_trajectories() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(golden_folder("optimizers") / "trajectories.json"));
  return all;
}

// The numbers of make_optimizers.py.
std::vector<float> drawn(std::uint32_t seed, std::int64_t count) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761U + seed * 40503U + 12345U;
    for (const std::uint32_t multiplier : {2246822519U, 3266489917U}) x = (x ^ (x >> 15)) * multiplier;
    numbers.push_back(static_cast<float>((x ^ (x >> 13)) >> 8) / 16777216.0F - 0.5F);
  }
  return numbers;
}

std::vector<float> by_columns(const std::vector<float>& matrix, const Shape& shape) {
  std::vector<float> turned;
  for (std::int64_t column = 0; column < shape[1]; ++column)
    for (std::int64_t row = 0; row < shape[0]; ++row)
      turned.push_back(matrix[static_cast<std::size_t>(row * shape[1] + column)]);
  return turned;
}

struct Machine {
  std::unique_ptr<Device> device = make_cpu_device(0, 2);
  std::unique_ptr<Stream> stream = device->make_stream("optimizer test");
  std::unique_ptr<Ops> ops = make_cpu_ops(*stream);
};

struct Case {
  std::string name;  // in the file
  OptimizerSettings settings;
  float lr = 0;
};

Tensor tensor_of(std::vector<float>& values, const Shape& shape) { return {values.data(), shape, DType::f32}; }

// A tensor in training, as it is stored.
struct Trained {
  SteppedTensor tensor;
  std::vector<float> weight, grad;
  std::vector<std::vector<float>> states = {};

  Shape stored() const { return tensor.transposed ? Shape{tensor.shape[1], tensor.shape[0]} : tensor.shape; }
};

void step_elements(Machine& machine, const UpdateRule& rule, std::size_t states, Trained& own) {
  const Shape flat{static_cast<std::int64_t>(own.weight.size())};
  own.states.resize(states, std::vector<float>(own.weight.size(), 0));
  UpdateArgs args{.weight = tensor_of(own.weight, flat), .grad = tensor_of(own.grad, flat), .states = {}, .rule = rule};
  for (std::size_t i = 0; i < states; ++i) args.states[i] = tensor_of(own.states[i], flat);
  machine.ops->update(args);
  machine.stream->synchronize();
}

void step_whole(Machine& machine, const TensorRule& rule, const std::vector<Shape>& shapes, Trained& own) {
  own.states.resize(shapes.size());
  std::vector<float> scratch(tensor_scratch(rule, own.stored()));
  TensorUpdateArgs args{.weight = tensor_of(own.weight, own.stored()),
                        .grad = tensor_of(own.grad, own.stored()),
                        .transposed = own.tensor.transposed,
                        .scratch = tensor_of(scratch, {static_cast<std::int64_t>(scratch.size())}),
                        .rule = rule};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    own.states[i].resize(static_cast<std::size_t>(shapes[i].elements()), 0);
    const Shape shape = shapes[i] == own.tensor.shape ? own.stored() : shapes[i];
    if (shape.elements() > 0) args.states[i] = tensor_of(own.states[i], shape);
  }
  machine.ops->tensor_update(args);
  machine.stream->synchronize();
}

// The gradient is scaled down and its factor given as the clipping factor.
std::vector<float> trained(const Case& own, const Shape& shape, std::uint32_t number, bool transposed) {
  Machine machine;
  const auto optimizer = make_optimizer(own.settings);
  const auto stored = [&](std::vector<float> values) { return transposed ? by_columns(values, shape) : values; };
  Trained tensor{{shape, transposed, shape.rank() == 2, true}, stored(drawn(number, shape.elements())), {}};
  const int steps = optimizer_trajectories().at("steps").get<int>();
  for (int step = 1; step <= steps; ++step) {
    tensor.grad = stored(drawn(100 * static_cast<std::uint32_t>(step) + number, shape.elements()));
    for (float& value : tensor.grad) value *= 4;
    const OptimizerStep at{.lr = own.lr, .step = step, .grad_scale = 0.25F};
    if (optimizer->granularity() == Granularity::matrix) {
      step_whole(machine, optimizer->tensor_rule(at, tensor.tensor).value(), optimizer->state_shapes(tensor.tensor), tensor);
    } else {
      step_elements(machine, optimizer->rule(at, true), optimizer->states().size(), tensor);
    }
  }
  return transposed ? by_columns(tensor.weight, {shape[1], shape[0]}) : tensor.weight;
}

double largest_difference(const std::vector<float>& found, const nlohmann::json& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::abs(found[i] - expected.at(i).get<double>()));
  return largest;
}

OptimizerSettings settings_of(const char* name, const std::function<void(OptimizerSettings&)>& change) {
  OptimizerSettings settings = default_settings(name);
  settings.weight_decay = 0.1F;
  change(settings);
  return settings;
}

const std::vector<Case>& golden_cases() {
  static const std::vector<Case> cases = {
      {"sgd", settings_of("sgd", [](auto&) {}), 0.05F},
      {"sgd_momentum", settings_of("sgd", [](auto& s) { s.momentum = 0.9F; }), 0.05F},
      {"sgd_nesterov", settings_of("sgd", [](auto& s) { s.momentum = 0.9F, s.nesterov = true; }), 0.05F},
      {"adafactor", settings_of("adafactor", [](auto& s) { s.clip_threshold = 1.05F; }), 0.5F},
      {"came", settings_of("came", [](auto& s) { s.beta2 = 0.99F, s.beta3 = 0.999F, s.clip_threshold = 0.9F; }), 0.02F},
      {"lamb", settings_of("lamb", [](auto&) {}), 0.02F},
      {"muon", settings_of("muon", [](auto& s) { s.muon_rate = MuonRate::original; }), 0.02F},
      {"muon_rms", settings_of("muon", [](auto& s) { s.nesterov = false; }), 0.02F},
      {"galore", settings_of("galore", [](auto& s) { s.galore_rank = 5, s.galore_gap = 3; }), 0.05F},
  };
  return cases;
}

}  // namespace

TEST_CASE("optimizers follow their references in double precision over seven steps", "[optimizer][golden]") {
  const std::map<std::string, std::pair<Shape, std::uint32_t>> tensors = {
      {"wide", {{12, 20}, 0}}, {"tall", {{20, 12}, 1}}, {"vector", {{7}, 2}}};
  for (const Case& own : golden_cases()) {
    for (const auto& [tensor, expected] : optimizer_trajectories().at(own.name).items()) {
      const auto& [shape, number] = tensors.at(tensor);
      INFO(own.name << " of the tensor " << tensor);
      const double tolerance = own.name == "came" ? 1e-5 : 2e-6;  // CAME divides by small differences of its states
      CHECK(largest_difference(trained(own, shape, number, false), expected) < tolerance);
      if (shape.rank() == 2) CHECK(largest_difference(trained(own, shape, number, true), expected) < tolerance);
    }
  }
}

TEST_CASE("AdamW with moments in 8 bits follows bitsandbytes", "[optimizer][golden]") {
  for (const bool has_signs : {true, false}) {
    const auto expected = optimizer_trajectories().at("maps").at(has_signs ? "signed" : "unsigned").get<std::vector<float>>();
    const EightBitMap map = eight_bit_map(has_signs);
    CHECK((std::vector<float>(map.begin(), map.end()) == expected));
  }
  Machine machine;
  OptimizerSettings settings = default_settings("adamw-8bit");
  settings.beta2 = 0.99F;
  settings.weight_decay = 0.1F;
  const auto optimizer = make_optimizer(settings);
  constexpr std::int64_t count = 6600;
  std::vector<float> weight = drawn(5, count);
  std::vector<std::uint8_t> codes[2];
  std::vector<float> magnitudes[2];
  EightBitUpdateArgs args{.weight = tensor_of(weight, {count}), .grad = {}, .states = {}, .rule = {}};
  for (std::size_t i = 0; i < 2; ++i) {
    codes[i].resize(count);
    magnitudes[i].resize((count + eight_bit_block - 1) / eight_bit_block);
    args.states[i] = {codes[i].data(), magnitudes[i].data()};
  }
  for (int step = 1; step <= optimizer_trajectories().at("steps").get<int>(); ++step) {
    std::vector<float> grad = drawn(100 * static_cast<std::uint32_t>(step) + 5, count);
    args.grad = tensor_of(grad, {count});
    args.rule = std::get<AdamW>(optimizer->rule({.lr = 0.02F, .step = step}, true));
    machine.ops->eight_bit_update(args);
    machine.stream->synchronize();
  }
  std::vector<float> sampled;
  for (std::size_t i = 0; i < weight.size(); i += 11) sampled.push_back(weight[i]);
  CHECK(largest_difference(sampled, optimizer_trajectories().at("adamw_8bit").at("large")) < 1e-6);
}

TEST_CASE("moments in 8 bits that are read and written back have the same codes and magnitudes", "[optimizer]") {
  for (const bool has_signs : {true, false}) {
    constexpr std::int64_t count = 40 * eight_bit_block + 77;
    std::vector<float> values = drawn(9, count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!has_signs) values[i] = std::abs(values[i]);
      values[i] *= std::pow(10.0F, static_cast<float>(i / 256 % 30) - 20);
    }
    std::vector<std::uint8_t> codes(count), again(count);
    std::vector<float> magnitudes(41), magnitudes_again(41), read(count);
    write_eight_bits(values.data(), has_signs, count, {codes.data(), magnitudes.data()});
    read_eight_bits({codes.data(), magnitudes.data()}, has_signs, count, read.data());
    write_eight_bits(read.data(), has_signs, count, {again.data(), magnitudes_again.data()});
    CHECK((again == codes));
    CHECK((magnitudes_again == magnitudes));
  }
}

}  // namespace pipetrain::test
