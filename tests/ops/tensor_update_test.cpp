// Updates of whole tensors: GPUs compared with the CPU, whose steps follow references in double precision
// (tests/model/optimizer_golden_test.cpp), and with themselves to the bit.
#include <functional>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "ops/tensor_update.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

// A tensor that is stepped whole, its gradients in turn, and the scratch memory of a step.
class SteppedWhole {
 public:
  // states: the shapes of the states, as stored.
  SteppedWhole(Bench& b, const Shape& shape, const std::vector<Shape>& states, const TensorUpdateArgs& args)
      : b_(b), args_(args), before_(b.draw_f32(shape, 0.5)) {
    args_.weight = b.put_f32(before_);
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i].elements() > 0) args_.states[i] = b.put_f32(Values(states[i]));
    args_.scratch = b.rank.poisoned({static_cast<std::int64_t>(tensor_scratch(args.rule, shape))}, DType::f32);
    for (int i = 0; i < 2; ++i) grads_.push_back(b.put_f32(b.draw_f32(shape)));
  }

  void step() {
    for (const Tensor& grad : grads_) {
      args_.grad = grad;
      b_.team.run([&](TestRank& r) { r.ops().tensor_update(args_); });
    }
  }
  // Returns by how much the weights have changed.
  Values change() {
    Values change = b_.rank.get(args_.weight);
    for (std::size_t i = 0; i < change.data.size(); ++i) change.data[i] -= before_.data[i];
    return change;
  }
  std::vector<Values> states() {
    std::vector<Values> states;
    for (const Tensor& state : args_.states)
      if (state.data != nullptr) states.push_back(b_.rank.get(state));
    return states;
  }
  std::vector<std::vector<unsigned char>> bytes() {
    std::vector<std::vector<unsigned char>> bytes{b_.rank.bytes(args_.weight)};
    for (const Tensor& state : args_.states)
      if (state.data != nullptr) bytes.push_back(b_.rank.bytes(state));
    return bytes;
  }

 private:
  Bench& b_;
  TensorUpdateArgs args_;
  Values before_;
  std::vector<Tensor> grads_;
};

struct WholeTensorCase {
  Shape shape;
  std::vector<Shape> states;
  TensorUpdateArgs args;
  double tolerance = statistics_tolerance;  // of the change of the weights
};

// Steps the tensor on every backend, twice on GPUs.
void check_whole_tensor(const WholeTensorCase& own) {
  std::optional<Values> change;
  std::vector<Values> states;
  on_each_backend_once([&](Bench& b) {
    Bench same = b;
    SteppedWhole tensor(b, own.shape, own.states, own.args);
    tensor.step();
    if (!change) change = tensor.change(), states = tensor.states();
    CHECK(relative_error(tensor.change(), *change) < own.tolerance);
    const std::vector<Values> found = tensor.states();
    REQUIRE(found.size() == states.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(relative_error(found[i], states[i]) < statistics_tolerance);
    CHECK(b.rank.guards_intact());
    if (on_cpu(b)) return;
    SteppedWhole again(same, own.shape, own.states, own.args);
    again.step();
    CHECK((again.bytes() == tensor.bytes()));
  });
}

bool has_gpu() { return ops_backends().size() > 1 || test::needs_gpus(0); }

const std::vector<Shape>& stepped_shapes() {
  static const std::vector<Shape> shapes = {{12, 20}, {20, 12}, {257, 130}, {64, 3000}, {3000, 64}};
  return shapes;
}

TEST_CASE("GPUs step matrices under Muon as CPUs do, within the rounding of bf16 products", "[gpu][optimizer]") {
  if (!has_gpu()) return;
  std::vector<Shape> shapes = stepped_shapes();
  shapes.insert(shapes.end(), {{512, 2048}, {2048, 512}, {768, 768}});
  for (const Shape& shape : shapes) {
    for (const bool nesterov : {true, false}) {
      const Muon muon{
          .lr = 0.3F, .momentum = 0.95F, .weight_decay = 1e-3F, .nesterov = nesterov, .update_scale = 0.8F, .grad_scale = 0.5F};
      WholeTensorCase own{shape, {shape}, {.weight = {}, .grad = {}, .rule = muon}};
      INFO(shape[0] << " x " << shape[1] << ", Nesterov " << nesterov);
      own.tolerance = 0.06;  // the iteration enlarges rounding errors of small singular values
      check_whole_tensor(own);
    }
  }
}

TEST_CASE("a matrix of zeros under Muon only decays", "[ops][optimizer]") {
  on_each_backend_once([](Bench& b) {
    const Shape shape{16, 24};
    const Values before = b.draw_f32(shape);
    const Muon muon{.lr = 0.5F, .momentum = 0.9F, .weight_decay = 0.5F};
    const Tensor weight = b.put_f32(before), zeros = b.put_f32(Values(shape)), momentum = b.put_f32(Values(shape));
    const Tensor scratch = b.rank.poisoned({static_cast<std::int64_t>(tensor_scratch(muon, shape))}, DType::f32);
    TensorUpdateArgs args{.weight = weight, .grad = zeros, .scratch = scratch, .rule = muon};
    args.states[0] = momentum;
    b.team.run([&](TestRank& r) { r.ops().tensor_update(args); });
    Values expected = before;
    for (auto& value : expected.data) value *= 0.75F;
    CHECK(relative_error(b.rank.get(weight), expected) < 1e-6);
  });
}

TEST_CASE("GPUs step tensors under LAMB as CPUs do", "[gpu][optimizer]") {
  if (!has_gpu()) return;
  const Lamb lamb{
      .lr = 0.02F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-6F, .weight_decay = 0.1F, .step = 3, .grad_scale = 0.5F};
  std::vector<Shape> shapes = stepped_shapes();
  shapes.insert(shapes.end(), {{7}, {100001}});
  for (const Shape& shape : shapes) {
    INFO(shape.elements() << " elements");
    check_whole_tensor({shape, {shape, shape}, {.weight = {}, .grad = {}, .rule = lamb}});
  }
}

TEST_CASE("GPUs step tensors under Adafactor and CAME as CPUs do", "[gpu][optimizer]") {
  if (!has_gpu()) return;
  const Adafactor adafactor{.lr = 0.02F,
                            .beta2_decay = -0.8F,
                            .eps = 1e-3F,
                            .weight_decay = 0.1F,
                            .least_scale = 1e-3F,
                            .clip_threshold = 0.9F,
                            .step = 3,
                            .grad_scale = 0.5F};
  const Came came{.lr = 0.02F,
                  .beta1 = 0.9F,
                  .beta2 = 0.99F,
                  .beta3 = 0.999F,
                  .weight_decay = 0.1F,
                  .eps = 1e-30F,
                  .deviation_eps = 1e-16F,
                  .clip_threshold = 0.9F,
                  .grad_scale = 0.5F};
  for (const bool transposed : {false, true}) {
    for (const Shape& shape : stepped_shapes()) {
      INFO(shape[0] << " x " << shape[1] << ", transposed " << transposed);
      const Shape rows{transposed ? shape[1] : shape[0]}, columns{transposed ? shape[0] : shape[1]};
      check_whole_tensor(
          {shape, {rows, columns, Shape{0}}, {.weight = {}, .grad = {}, .transposed = transposed, .rule = adafactor}});
      check_whole_tensor({shape,
                          {shape, Shape{0}, rows, columns, rows, columns},
                          {.weight = {}, .grad = {}, .transposed = transposed, .rule = came},
                          1e-4});  // it divides by small differences of its states
    }
  }
  for (const Shape& shape : {Shape{7}, Shape{100001}}) {
    INFO("a vector of " << shape.elements());
    check_whole_tensor({shape, {Shape{0}, Shape{0}, shape}, {.weight = {}, .grad = {}, .rule = adafactor}});
    check_whole_tensor({shape, {shape, shape}, {.weight = {}, .grad = {}, .rule = came}});
  }
}

}  // namespace
}  // namespace pipetrain::testing
