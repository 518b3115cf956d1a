#include "actors/training/turns.hpp"

namespace pipetrain {

void Turns::run(const std::function<void()>& first, const std::function<void()>& second) {
  failures_ = {};
  runs_ = {true, true};
  running_ = 0;
  worker_.post([this, &first] {
    turn_[0].acquire();
    run_one(0, first);
    first_ended_.release();
  });
  turn_[0].release();
  turn_[1].acquire();
  run_one(1, second);
  first_ended_.acquire();
  running_ = none;
  for (const auto& failure : failures_)
    if (failure) std::rethrow_exception(failure);
}

void Turns::pass() {
  if (running_ == none) return;
  const int own = running_, other = 1 - own;
  if (!runs_[static_cast<std::size_t>(other)]) return;
  running_ = other;
  turn_[static_cast<std::size_t>(other)].release();
  turn_[static_cast<std::size_t>(own)].acquire();
}

void Turns::run_one(int job, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    failures_[static_cast<std::size_t>(job)] = std::current_exception();
  }
  end(job);
}

void Turns::end(int job) {
  const int other = 1 - job;
  runs_[static_cast<std::size_t>(job)] = false;
  if (!runs_[static_cast<std::size_t>(other)]) return;
  running_ = other;
  turn_[static_cast<std::size_t>(other)].release();
}

}  // namespace pipetrain
