// The CPU's updates of whole tensors: one function for each alternative of TensorRule (ops/tensor_update.hpp).
#pragma once

#include "core/cpu_stream.hpp"
#include "ops/tensor_update.hpp"

namespace pipetrain::cpu {

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Adafactor& rule);
void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Came& rule);
void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Lamb& rule);
void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Muon& rule);
void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const GaLore& rule);

// The averages of a matrix's squares over rows and columns, as the stored matrix has them.
struct LineStates {
  float *rows = nullptr, *columns = nullptr;
};
// first: the index among the states of that of the model's rows; that of its columns follows.
inline LineStates line_states(const TensorUpdateArgs& args, std::size_t first) {
  float *const of_rows = args.states[first].as<float>(), *const of_columns = args.states[first + 1].as<float>();
  return args.transposed ? LineStates{of_columns, of_rows} : LineStates{of_rows, of_columns};
}

}  // namespace pipetrain::cpu
