#include "bindings/guest/guest_world.hpp"

#include "bindings/guest/misuse.hpp"
#include "comm/control/settings.hpp"

namespace pipetrain {

GuestWorld::GuestWorld(const Rendezvous& rendezvous, std::chrono::milliseconds patience)
    : process_(rendezvous.process),
      processes_(rendezvous.processes),
      control_(control::join_processes(rendezvous, {.patience = patience})) {}

GuestWorld::~GuestWorld() {
  if (control_) control_->leave();
}

std::string GuestWorld::name_of(int process) const {
  const std::lock_guard lock(mutex_);
  if (!control_) throw Misuse("the processes: this one has left them");
  return to_string(control_->info(process));
}

std::shared_ptr<ControlPlane> GuestWorld::lend() {
  const std::lock_guard lock(mutex_);
  if (!control_) throw Misuse("a new pipeline: this process has left the others");
  if (lent_) throw Misuse("a new pipeline: these processes have one already; close it first");
  lent_ = true;
  return control_;
}

void GuestWorld::give_back() noexcept {
  const std::lock_guard lock(mutex_);
  lent_ = false;
}

void GuestWorld::leave() {
  const std::lock_guard lock(mutex_);
  if (lent_) throw Misuse("the processes: their pipeline is still there; close it first");
  if (control_) control_->leave();
  control_.reset();
}

}  // namespace pipetrain
