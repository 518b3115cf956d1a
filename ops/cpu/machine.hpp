#pragma once

namespace pipetrain::cpu {

// Throws Error(unavailable) if this machine's processor lacks instructions that the kernels were compiled for.
void check_machine();

}  // namespace pipetrain::cpu
