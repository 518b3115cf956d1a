// The matrices that can have adapters, and the roles of their adapters' tensors.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/tensor_spec.hpp"

namespace pipetrain {

// The roles of the adapters of one stacked matrix: that of all first matrices, that of all magnitudes, and those of the second
// matrix of the stack's first, second and third module. In a stack of experts' matrices, of each expert's modules.
struct AdapterRoles {
  TensorRole in;
  std::optional<TensorRole> magnitude;  // none for experts, latent attention and the head
  std::array<TensorRole, 3> out;
};
// Returns nothing for a matrix that cannot have adapters.
std::optional<AdapterRoles> adapter_roles(TensorRole matrix);

// True for a matrix that can have an adapter. A head of classes is trained whole, and one that is the embeddings' table has
// that one's name: neither is adaptable.
bool is_adaptable(const TensorSpec& tensor);

// Returns the name of the module whose weight this is: "model.layers.3.self_attn.q_proj".
std::string module_of(const std::string& weight);

// Returns the name of the module whose adapter the matrix has, which adapter_of() takes. It is module_of(), but of an expert's
// matrix where parameters have adapters (Adapter::parameters): "model.layers.3.mlp.experts.7.gate_up_proj".
std::string adapted_module(const Adapter& adapter, const std::string& weight, TensorRole role);

// Returns the adapter of a block's module; nothing if it has none. The head has one only if a target names it.
std::optional<ModuleAdapter> adapter_of(const Adapter& adapter, std::string_view module, const Block& block);

// A matrix as files have it, which may have an adapter.
struct AdaptableModule {
  std::string name;  // "model.layers.3.self_attn.q_proj"
  TensorRole matrix;
  std::size_t number = 0;    // among the modules that are stacked into the matrix, or among the expert's
  std::int64_t expert = -1;  // see TensorSpec
  TensorPart part = {};      // the tensor's rows of the module's
};
// Returns the module of each of the tensors; nothing for those that are not adaptable matrices.
std::vector<std::optional<AdaptableModule>> adaptable_modules(const Adapter& adapter, const std::vector<TensorSpec>& tensors);

}  // namespace pipetrain
