#include "schedules/protocol/impossible_events.hpp"

#include <stdexcept>

#include "schedules/plan/check_customs.hpp"

namespace pipetrain::schedules {

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::activation:
      return "activation";
    case InputKind::gradient:
      return "gradient";
    case InputKind::target:
      return "target";
  }
  return "?";
}

void ImpossibleEvents::report(const std::string& what) const {
  throw std::logic_error("stage " + std::to_string(stage_) + ": " + what);
}

void ImpossibleEvents::input(InputKind kind, int chunk, int microbatch, const char* why) const {
  report(std::string("the ") + name_of(kind) + " of microbatch " + piece_text(microbatch, plan_->slices) + " for chunk " +
         std::to_string(chunk) + " " + why);
}

void ImpossibleEvents::credit(InputKind output, int chunk, const char* why) const {
  report(std::string("a credit comes for the ") + name_of(output) + " of chunk " + std::to_string(chunk) + ", which " + why);
}

void ImpossibleEvents::signal(int custom, const char* why) const {
  report("a signal comes for " + custom_name(*plan_, custom) + ", which " + why);
}

void ImpossibleEvents::end(const Action& action) const {
  report(to_string(action, plan_->form()) + " completes but is not running");
}

}  // namespace pipetrain::schedules
