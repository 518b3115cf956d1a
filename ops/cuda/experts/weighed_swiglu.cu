// The gradients of gated units whose rows have weights, in one pass over the rows.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/gated_unit.cuh"
#include "ops/cuda/used_rows.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256, rows_a_block = threads / 32;
constexpr int unroll = 4;  // packs of each input that a lane takes at once: their loads are in flight together

struct WeighedRows {
  const float* weights;
  const float* addend;  // null: none
  float* dweights;
  unsigned* largest;  // null, or the target of raise_by_block()
  const int* used;
  int rows, row_packs;
};

// One warp computes a row. The unit's value and that value's gradient are rounded to T, as they would be in memory between
// separate operations.
template <class Unit, class T, int W>
__global__ void __launch_bounds__(threads, 2)
    weighed_backward_kernel(const T* dy, const T* gate_up, T* dgate_up, WeighedRows of, GateClamps clamps) {
  const Unit unit(clamps);
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.x) * rows_a_block + static_cast<int>(threadIdx.x) / 32;
  const bool exists = row < (of.used == nullptr ? of.rows : *of.used);
  const int packs = exists ? of.row_packs : 0;
  const Real<T> weight = exists ? of.weights[row] : 0.0F;
  const std::int64_t narrow = static_cast<std::int64_t>(row) * of.row_packs, wide = 2 * narrow;
  Real<T> product = 0;
  unsigned found = 0;
  for (int first = lane; first < packs; first += 32 * unroll) {
    Pack<T, W> grad[unroll], gate[unroll], up[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int at = first + n * 32;
      if (at >= packs) continue;
      grad[n] = load<W>(dy, narrow + at);
      gate[n] = load<W>(gate_up, wide + at);
      up[n] = load<W>(gate_up, wide + packs + at);
    }
#pragma unroll
    for (int n = 0; n < unroll; ++n) {
      const int at = first + n * 32;
      if (at >= packs) continue;
      forget(grad[n]), forget(gate[n]), forget(up[n]);
      Real<T> dgate[W], dup[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const Real<T> weighed_grad = grad[n][i];
        product += weighed_grad * rounded<T>(unit.forward(gate[n][i], up[n][i]));
        const auto gradients = unit.backward(rounded<T>(weight * weighed_grad), gate[n][i], up[n][i]);
        dgate[i] = gradients.gate;
        dup[i] = gradients.up;
        found = max(found, max(magnitude(dgate[i]), magnitude(dup[i])));
      }
      store(dgate_up, wide + at, dgate);
      store(dgate_up, wide + packs + at, dup);
    }
  }
  product = warp_sum(product);
  if (exists && lane == 0) of.dweights[row] = static_cast<float>(of.addend == nullptr ? product : product + of.addend[row]);
  if (of.largest != nullptr) raise_by_block<T>(of.largest, found);
}

}  // namespace

void weighed_swiglu_backward(cudaStream_t stream, const WeighedSwigluBackwardArgs& args) {
  const Tensor &dy = args.dy, &gate_up = args.gate_up, &dgate_up = args.dgate_up;
  unsigned* const raised = begin_largest(stream, args.largest);
  if (dy.elements() == 0) return;
  const bool aligned = aligned16(gate_up.data) && aligned16(dy.data) && aligned16(dgate_up.data);
  with_gate(dy, args.gate, aligned, [&](auto unit, auto t, auto w, unsigned row_packs, std::int64_t) {
    using Unit = typename decltype(unit)::type;
    using T = typename decltype(t)::type;
    const WeighedRows of{data_of<float>(args.weights),  args.addend.shape.rank() == 0 ? nullptr : data_of<float>(args.addend),
                         data_of<float>(args.dweights), raised,
                         used_or_null(args.used),       static_cast<int>(dy.rows()),
                         static_cast<int>(row_packs)};
    launch(stream, weighed_backward_kernel<Unit, T, decltype(w)::value>, blocks_for(dy.rows(), rows_a_block), threads, 0,
           data_of<T>(dy), data_of<T>(gate_up), data_of<T>(dgate_up), of, args.clamps);
  });
}

}  // namespace pipetrain::cuda
