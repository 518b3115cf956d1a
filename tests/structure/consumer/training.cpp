#include <iostream>

#include "core/device.hpp"
#include "ops/ops.hpp"

int main() {
  using namespace pipetrain;
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("consumer");
  const auto ops = make_cpu_ops(*stream);
  std::cout << to_string(device->id());
}
