#include "comm/nccl/nccl_comms.hpp"

namespace pipetrain {

NcclComms::~NcclComms() {
  if (aborter_.joinable()) aborter_.join();
}

std::shared_ptr<NcclComm> NcclComms::join(const NcclPlace& place) {
  auto comm = std::make_shared<NcclComm>(place);
  const std::lock_guard lock(mutex_);
  comms_.push_back(comm);
  return comm;
}

std::vector<std::shared_ptr<NcclComm>> NcclComms::alive() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<NcclComm>> alive;
  for (const auto& weak : comms_) {
    if (auto comm = weak.lock()) alive.push_back(std::move(comm));
  }
  comms_.assign(alive.begin(), alive.end());
  return alive;
}

NcclComms::Failure NcclComms::failure() {
  for (const auto& comm : alive()) {
    if (std::string why = comm->failure(); !why.empty()) return {comm->peer(), "NCCL: " + why};
  }
  return {};
}

void NcclComms::abort() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (aborter_.joinable()) return;
    aborter_ = std::thread([this] { NcclComm::abort(alive()); });
  } catch (...) {  // no thread could be started
    NcclComm::abort(alive());
  }
}

}  // namespace pipetrain
