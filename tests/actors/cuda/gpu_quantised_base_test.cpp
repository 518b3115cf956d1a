// Frozen matrices of fewer bits on GPUs: a run computes what a run of the dequantised weights computes.
#include <cstring>
#include <optional>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/quantised_base.hpp"
#include "catch.hpp"
#include "model/quantisation/nf4.hpp"
#include "ops/ops.hpp"

namespace pipetrain::test {
namespace {

std::optional<RunRecord> run_base_on_gpu(TrainJob job, const Precision& precision) {
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  return run(std::move(job), 3);
}

// Draws a matrix in pieces of so many elements, and returns the bytes of the slice.
std::vector<std::byte> quantise_on_gpu(Ops& ops, const NormalDraw& draw, const QuantisedLayout& layout, std::int64_t piece) {
  Stream& stream = ops.stream();
  const std::int64_t elements = layout.full.elements();
  const auto floats = [&](std::int64_t count) {
    return stream.device().allocate(static_cast<std::size_t>(count) * sizeof(float), "a test");
  };
  const Buffer values = floats(std::min(piece, elements)), scales = floats(layout.blocks()),
               matrix = stream.device().allocate(layout.bytes, "a test");
  std::vector<std::byte> bytes(layout.bytes);
  std::memcpy(bytes.data() + layout.tables, nf4_level_values.data(), sizeof nf4_level_values);
  if (layout.form == WeightForm::nf4)
    std::memcpy(bytes.data() + layout.tables + sizeof nf4_level_values, nf4_scale_values().data(), sizeof nf4_scale_values());
  stream.copy(matrix.data(), bytes.data(), layout.bytes);
  const QuantisedMatrix out{layout, static_cast<std::byte*>(matrix.data())};
  const Tensor all_scales{scales.data(), {layout.blocks()}, DType::f32};
  for (std::int64_t first = 0; first < elements; first += piece) {
    const Tensor drawn{values.data(), {std::min(piece, elements - first)}, DType::f32};
    ops.draw_normals({.draw = draw, .first = first, .out = drawn});
    ops.quantise_nf4({.values = drawn, .first = first, .out = out, .scales = all_scales});
  }
  ops.code_nf4_scales({.scales = all_scales, .out = out});
  stream.copy(bytes.data(), matrix.data(), layout.bytes);
  stream.synchronize();
  return bytes;
}

}  // namespace

TEST_CASE("a base of fewer bits gives the bits of a run of its dequantised weights on one GPU, at every pp",
          "[gpu][quantisation]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (const WeightForm form : {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales}) {
      INFO("form " << static_cast<int>(form) << ", 16 bits " << (precision == Precision::bf16()));
      TrainJob plain = base_job({1, 1, 1, 2}, WeightForm::plain);
      plain.initial.weights = std::make_shared<DequantisedWeights>(plain.initial.weights, form);
      const auto expected = run_base_on_gpu(std::move(plain), precision);
      if (!expected) return;
      Layout recomputed{2, 1, 1, 2, "zb-v", 2};
      recomputed.recompute = Recompute::full;
      for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, recomputed}) {
        INFO(to_string(layout));
        CHECK((*run_base_on_gpu(base_job(layout, form), precision) == *expected));
      }
    }
  }
}

// The slices that rows, odd numbers of rows, and columns give; the second matrix has more than one group of scales.
TEST_CASE("a GPU draws and quantises matrices to the bytes that the host makes", "[gpu][quantisation]") {
  if (!needs_gpus(cuda_device_count(), 1)) return;
  ModelConfig config;
  config.init_std = 0.02;
  const auto source = random_weights(config, 11);
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  const auto ops = make_cuda_ops(*stream);
  struct Slice {
    Shape full, local;
    int axis = -1;
    std::int64_t begin = 0;
  };
  for (const Slice& one :
       {Slice{{96, 192}, {96, 192}}, Slice{{517, 192}, {517, 192}}, Slice{{33, 21}, {9, 21}, 0, 3}, Slice{{33, 21}, {33, 21}},
        Slice{{300, 256}, {300, 128}, 1, 64}, Slice{{300, 256}, {75, 256}, 0, 75}}) {
    for (const WeightForm form : {WeightForm::nf4, WeightForm::nf4_scales}) {
      for (const std::int64_t piece : {std::int64_t{64}, std::int64_t{4096}, std::int64_t{1} << 20}) {
        INFO(one.full[0] << " x " << one.full[1] << ", axis " << one.axis << ", form " << static_cast<int>(form) << ", piece "
                         << piece);
        Parameter slice;
        slice.name = "model.layers.0.mlp.up_proj.weight";
        slice.full = one.full, slice.local = one.local, slice.split_axis = one.axis, slice.begin = one.begin;
        const QuantisedLayout layout = quantised_layout_of(slice, form);
        std::vector<float> whole(static_cast<std::size_t>(one.full.elements()));
        source->load(whole_matrix(slice), whole.data());
        std::vector<std::byte> expected(layout.bytes), bytes(layout.bytes);
        quantise(layout, whole, expected.data());
        CHECK((quantise_on_gpu(*ops, *source->drawn(slice), layout, piece) == expected));
      }
    }
  }
}

}  // namespace pipetrain::test
