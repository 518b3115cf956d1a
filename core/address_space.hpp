// The limit on what a process may map (ulimit -v): memory, stacks of threads and mapped files together.
#pragma once

#include <cstddef>
#include <optional>

namespace pipetrain {

// Returns the limit in bytes; no value if there is none. Thread-safe.
std::optional<std::size_t> address_space_limit() noexcept;

}  // namespace pipetrain
