// The matrices that can have adapters, and the roles of their adapters' tensors.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/config/tensor_spec.hpp"

namespace pipetrain {

// The roles of the adapters of one stacked matrix: that of all first matrices, that of all magnitudes, and those of the second
// matrix of the stack's first, second and third module. In a stack of experts' matrices, of each expert's modules.
struct AdapterRoles {
  TensorRole in;
  std::optional<TensorRole> magnitude;  // none for experts
  std::array<TensorRole, 3> out;
};
// Returns nothing for a matrix that cannot have adapters.
std::optional<AdapterRoles> adapter_roles(TensorRole matrix);

// Returns the name of the module whose weight this is: "model.layers.3.self_attn.q_proj".
std::string module_of(const std::string& weight);

// A matrix of attention or MLP as files have it, which may have an adapter.
struct AdaptableModule {
  std::string name;  // "model.layers.3.self_attn.q_proj"
  TensorRole matrix;
  std::size_t number = 0;    // among the modules that are stacked into the matrix, or among the expert's
  std::int64_t expert = -1;  // see TensorSpec
};
// Returns the module of each of the tensors; nothing for those that are not adaptable matrices.
std::vector<std::optional<AdaptableModule>> adaptable_modules(const std::vector<TensorSpec>& tensors);

}  // namespace pipetrain
