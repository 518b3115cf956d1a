// What PIPETRAIN_FAULT does to a rank.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "actors/training/rank/rank_compute.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// "rank 3 (stage 1, tp rank 1, replica 0) in step 2"
std::string place_of(const Fault& fault, const MeshCoordinate& id) {
  return "rank " + std::to_string(fault.rank) + " (" + to_string(id) + ") in step " + std::to_string(fault.step);
}

// For faults that leave no other word of themselves.
void tell(const Fault& fault, const MeshCoordinate& id, const char* what) {
  std::fprintf(stderr, "%s %s, as PIPETRAIN_FAULT asks\n", place_of(fault, id).c_str(), what);
}

}  // namespace

void RankCompute::provoke(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::raise:
      throw Error::at(place_of(fault, setup_.id), ErrorKind::internal, "a fault was asked for (PIPETRAIN_FAULT)");
    case FaultKind::exit:
      tell(fault, setup_.id, "ends the process");
      std::_Exit(1);
    case FaultKind::out_of_memory:
      try {
        setup_.device->allocate(std::size_t{1} << 60, "the fault of PIPETRAIN_FAULT");
      } catch (const Error& error) {
        throw Error::at(place_of(fault, setup_.id), error.kind(), error.what());
      }
      break;
    case FaultKind::nan:
      state_->spoil();
      break;
    case FaultKind::skip:  // the trainer's to decide
      break;
    case FaultKind::slow:  // delay() is, in every action
      tell(fault, setup_.id, "is slow from now on");
      break;
    case FaultKind::hang:
      tell(fault, setup_.id, "hangs");
      // Hangs the stream as a stuck kernel would, until the run gives up on it.
      stream_->host_callback([this] {
        while (!stream_->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      });
      break;
  }
}

bool RankCompute::is_slow() const {
  return setup_.fault && setup_.fault->kind == FaultKind::slow && step_.step >= setup_.fault->step && !evaluates();
}

void RankCompute::delay() {
  stream_->host_callback([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
}

}  // namespace pipetrain
