#include "comm/shared_gpus.hpp"

#include <atomic>

namespace pipetrain {
namespace {

std::atomic<bool> may_share{false};

}  // namespace

void let_processes_share_gpus() { may_share = true; }
bool processes_may_share_gpus() { return may_share; }

}  // namespace pipetrain
