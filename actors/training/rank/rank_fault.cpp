#include "actors/training/rank/rank_fault.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// Returns "rank 3 (stage 1, tp rank 1, replica 0) in step 2".
std::string place_of_fault(const Fault& fault, const MeshCoordinate& id) {
  return "rank " + std::to_string(fault.rank) + " (" + to_string(id) + ") in step " + std::to_string(fault.step);
}

// Reports a fault that is visible nowhere else.
void print_fault(const Fault& fault, const MeshCoordinate& id, const char* what) {
  std::fprintf(stderr, "%s %s, as PIPETRAIN_FAULT asks\n", place_of_fault(fault, id).c_str(), what);
}

}  // namespace

void RankFault::begin_step(const StepInfo& step, const std::function<void()>& spoil) {
  if (setup_.fault && setup_.fault->step == step.step && !step.evaluates()) provoke(*setup_.fault, spoil);
}

void RankFault::provoke(const Fault& fault, const std::function<void()>& spoil) {
  switch (fault.kind) {
    case FaultKind::raise:
      throw Error::at(place_of_fault(fault, setup_.id), ErrorKind::internal, "a fault was asked for (PIPETRAIN_FAULT)");
    case FaultKind::exit:
      print_fault(fault, setup_.id, "ends the process");
      std::_Exit(1);
    case FaultKind::exit_in_update:  // after_update() ends it
      break;
    case FaultKind::stop:
      print_fault(fault, setup_.id, "stops the process");
      std::raise(SIGSTOP);
      break;
    case FaultKind::out_of_memory:
      try {
        setup_.device->allocate(std::size_t{1} << 60, "the fault of PIPETRAIN_FAULT");
      } catch (const Error& error) {
        throw Error::at(place_of_fault(fault, setup_.id), error.kind(), error.what());
      }
      break;
    case FaultKind::nan:
      spoil();
      break;
    case FaultKind::skip:  // the trainer decides that
      break;
    case FaultKind::slow:  // delay() slows every action down
      print_fault(fault, setup_.id, "is slow from now on");
      break;
    case FaultKind::hang:
      print_fault(fault, setup_.id, "hangs");
      // Hangs the stream like a stuck kernel, until the run gives up on it.
      compute_.host_callback([&compute = compute_] {
        while (!compute.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      });
      break;
  }
}

void RankFault::after_update(const StepInfo& step) const {
  if (!setup_.fault || setup_.fault->kind != FaultKind::exit_in_update || step.step != setup_.fault->step) return;
  compute_.host_callback([&setup = setup_] {
    print_fault(*setup.fault, setup.id, "ends the process after its update");
    std::_Exit(1);
  });
}

void RankFault::delay(const StepInfo& step) {
  if (!setup_.fault || setup_.fault->kind != FaultKind::slow || step.step < setup_.fault->step || step.evaluates()) return;
  compute_.host_callback([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
}

}  // namespace pipetrain
