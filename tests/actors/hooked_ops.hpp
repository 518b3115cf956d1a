// Wraps operations so that a function, which may count or throw, is called before each.
#pragma once

#include <functional>
#include <memory>

#include "ops/ops.hpp"

namespace pipetrain::test {

// The hook runs on the thread that enqueues; the operation throws what the hook throws.
std::unique_ptr<Ops> make_hooked_ops(std::unique_ptr<Ops> ops, std::function<void()> hook);

}  // namespace pipetrain::test
