#include "data/templates/values/runtime.hpp"

#include <fmt/format.h>

namespace pipetrain::templates {

Runtime::~Runtime() {
  for (const auto& one : namespaces_) one->clear();
}

void Runtime::charge_steps(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) fail(fmt::format("rendering takes more than {} steps", limits_.steps));
}

void Runtime::charge_bytes(std::size_t bytes) {
  bytes_ = bytes > limits_.bytes ? limits_.bytes + 1 : bytes_ + bytes;
  if (bytes_ > limits_.bytes) fail(fmt::format("rendering makes values of more than {} MiB", limits_.bytes >> 20));
}

void Runtime::check_output(std::size_t bytes) const {
  if (bytes > limits_.output) fail(fmt::format("the text has more than {} MiB", limits_.output >> 20));
}

void Runtime::enter() {
  if (depth_ >= limits_.depth) fail("expressions, blocks or macros are nested too deep");
  ++depth_;
}

std::shared_ptr<Namespace> Runtime::make_namespace() {
  charge_bytes(sizeof(Namespace));
  return namespaces_.emplace_back(std::make_shared<Namespace>());
}

}  // namespace pipetrain::templates
