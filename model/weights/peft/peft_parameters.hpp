// The tensors in which PEFT keeps the adapters of a parameter that holds a matrix of all experts of a layer
// (Adapter::parameters; github.com/huggingface/peft, ParamWrapper). With E experts of rank r: lora_A [E r, inputs], the
// experts' first matrices one below the other, and lora_B [outputs, r E], whose column i E + e is column i of expert e's second
// matrix. The rows of gate_up_proj are gate's, then up's, or in turns where the model's files have them in turns (GPT-OSS).
//
// PEFT wraps the parameters of a module one in another, the first one innermost: the tensors of gate_up_proj are
// "experts.base_layer.lora_A.weight" where down_proj has an adapter too, and "experts.lora_A.weight" where it has none.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/config/config.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// The place of one expert's matrix, [rows, columns], in such a tensor.
struct PeftPlace {
  std::string tensor;  // its name, without PEFT's prefix
  Shape shape;         // its shape
  Shape one;           // that of the expert's matrix
  std::int64_t expert = 0, experts = 1;
  bool is_second = false;   // lora_B
  bool alternates = false;  // the rows of gate and up are in turns

  // Returns the index in the tensor of element i of the expert's matrix.
  std::int64_t index_of(std::int64_t i) const;
};

// Thread-safe.
class PeftPlaces {
 public:
  explicit PeftPlaces(const ModelConfig& config);

  // Returns the place of the tensor of this name; nothing if it is in the file by itself.
  const PeftPlace* find(const std::string& tensor) const;

 private:
  std::map<std::string, PeftPlace> places_;  // by the names of the experts' tensors
};

}  // namespace pipetrain
