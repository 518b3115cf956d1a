// Adapter describes low-rank adapters (LoRA: Hu et al. 2021, arXiv 2106.09685), which are trained in place of the matrices that
// they are added to: y = x W^T + scale * dropout(x) A^T B^T, with A [rank, inputs] and B [outputs, rank]. W stays frozen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

struct Adapter {
  std::int64_t rank = 0;    // 0: the model has no adapters
  double alpha = 0;         // scale = alpha / rank
  double dropout = 0;       // the share of a matrix's inputs that its adapter drops; each target draws for itself
  bool root_scale = false;  // scale = alpha / sqrt(rank) (rsLoRA: Kalajdzievski 2023, arXiv 2312.03732)
  // Names of modules, or the ends of names: "q_proj" stands for every module whose name ends with ".q_proj". Empty: all
  // matrices of attention and MLP.
  std::vector<std::string> targets = {};
  // Names, or ends of names, of parameters that hold a matrix of all experts of a layer, as transformers 5 and PEFT's
  // target_parameters call them: "model.layers.3.mlp.experts.gate_up_proj", or "down_proj". Gate and up of an expert then have
  // one adapter together. Where there are any, `targets` stands for no expert's matrix, and for no matrix at all if it is
  // empty.
  std::vector<std::string> parameters = {};
  std::vector<std::int64_t> layers = {};  // the layers that have adapters, in ascending order; empty: all
  // Each row of W + scale B A is divided by its norm and multiplied by a number that is trained, its magnitude (DoRA: Liu et
  // al. 2024, arXiv 2402.09353). No gradient flows through the norms.
  bool magnitudes = false;
  bool norms = false;  // the norms of the model are trained too; else they are frozen
  // Ranks and alphas of some modules, by name or last part, where they differ from those above.
  std::map<std::string, std::int64_t> ranks = {};
  std::map<std::string, double> alphas = {};

  bool exists() const { return rank > 0; }
  bool operator==(const Adapter&) const = default;
};

// The adapter of one module.
struct ModuleAdapter {
  std::int64_t rank = 0;
  double scale = 1;
};

// True when a name is the module's, or its last part from a dot on.
bool names_module(std::string_view name, std::string_view module);
// The names of the parameters that hold the matrices of all experts of a layer: gate and up, and down.
std::string gate_up_parameter(std::int64_t layer);
std::string down_parameter(std::int64_t layer);
// Returns the name of the parameter that holds an expert's matrix: that of the module "model.layers.3.mlp.experts.7.down_proj"
// without the expert's number. Returns nothing for a module of no expert.
std::optional<std::string> parameter_of(std::string_view module);
// Returns the adapter of a layer's module, such as "model.layers.3.self_attn.q_proj"; nothing if it has none.
std::optional<ModuleAdapter> adapter_of(const Adapter& adapter, std::string_view module, std::int64_t layer);

}  // namespace pipetrain
