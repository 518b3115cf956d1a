// The matrices and biases of the experts of GPT-OSS, which files stack over the experts of a layer (github.com/huggingface/
// transformers, gpt_oss): experts.gate_up_proj [experts, inputs, 2 x inner], with the columns of gate and up in turns,
// experts.down_proj [experts, inner, outputs], and the biases experts.gate_up_proj_bias [experts, 2 x inner] and
// experts.down_proj_bias [experts, outputs]. Published files have the matrices in the microscaling format mxfp4 (Open Compute
// Project 2023, "OCP Microscaling Formats Specification"): NAME_blocks [experts, outputs, inputs / 32, 16], two 4-bit floats a
// byte, the low half first, and NAME_scales [experts, outputs, inputs / 32], powers of two with a bias of 127.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "model/parameters/parameters.hpp"
#include "model/weights/hf_tensors.hpp"

namespace pipetrain {

// The place of one expert's matrix or bias in a stack. The model has the matrix as [outputs, inputs].
struct StackPlace {
  std::string stack;        // the name of the tensor in files
  std::int64_t expert = 0;  // its number
  int part = 0, parts = 1;  // its outputs are every parts-th of the stack's, from this one on
  bool is_bias = false;
};

// Returns the place of the tensor of this name; nothing if it is not stacked.
std::optional<StackPlace> place_in_stack(const ModelConfig& config, const std::string& name);
// Returns the shape of the stack that a tensor of this shape is in.
Shape stack_shape(const ModelConfig& config, const StackPlace& place, const Shape& one);
// Copies one tensor, of this shape, to its place in its expert's part of the stack.
void copy_to_stack(const StackPlace& place, const Shape& one, const float* values, float* part);

// Reading is thread-safe.
class ExpertStacks {
 public:
  // Takes the stacks out of `tensors`, which must outlive it. Throws Error(input), naming the file's tensor, if one is missing
  // or has another shape or type.
  ExpertStacks(const ModelConfig& config, HfTensors& tensors);

  bool has(const std::string& name) const { return places_.contains(name); }
  // Returns the file that the tensor is in.
  const std::filesystem::path& path(const std::string& name) const { return stack_of(name).values.file->path(); }
  // out (parameter.local) = the values of the slice.
  void load(const Parameter& parameter, float* out) const;

 private:
  struct Stack {
    HfTensors::Location values;
    std::optional<HfTensors::Location> scales;  // of mxfp4
    Shape shape;                                // as stack_shape()
  };

  const Stack& stack_of(const std::string& name) const { return stacks_.at(places_.at(name).stack); }
  // Returns the values of an expert's part of the stack, as copy_to_stack() orders them.
  std::vector<float> read_part(const Stack& stack, std::int64_t expert) const;

  std::map<std::string, Stack> stacks_;
  std::map<std::string, StackPlace> places_;  // by the names of the experts' tensors
};

}  // namespace pipetrain
