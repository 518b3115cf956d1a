// Reports the events of a stage that cannot happen: std::logic_error that names stage and event. Internal to schedules/.
// All are out of line, so that the callers stay small.
#pragma once

#include <memory>
#include <string>

#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

// Returns "activation", "gradient" or "target".
const char* name_of(InputKind kind);

class ImpossibleEvents {
 public:
  ImpossibleEvents(std::shared_ptr<const Plan> plan, int stage) : plan_(std::move(plan)), stage_(stage) {}

  [[noreturn, gnu::noinline]] void report(const std::string& what) const;
  [[noreturn, gnu::noinline]] void input(InputKind kind, int chunk, int microbatch, const char* why) const;
  [[noreturn, gnu::noinline]] void credit(InputKind output, int chunk, const char* why) const;
  [[noreturn, gnu::noinline]] void signal(int custom, const char* why) const;
  [[noreturn, gnu::noinline]] void end(const Action& action) const;

 private:
  std::shared_ptr<const Plan> plan_;
  int stage_;
};

}  // namespace pipetrain::schedules
