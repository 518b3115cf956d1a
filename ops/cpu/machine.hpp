#pragma once

namespace pipetrain::cpu {

// Throws Error(unavailable) when this machine's processor lacks instructions that the kernels were compiled for.
void check_machine();

}  // namespace pipetrain::cpu
