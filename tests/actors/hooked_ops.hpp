// Operations that call a function before each of their own, which may count, or throw.
#pragma once

#include <functional>
#include <memory>

#include "ops/ops.hpp"

namespace pipetrain::test {

// Does what `ops` does. The hook runs on the thread that enqueues; what it throws, the operation throws.
std::unique_ptr<Ops> make_hooked_ops(std::unique_ptr<Ops> ops, std::function<void()> hook);

}  // namespace pipetrain::test
