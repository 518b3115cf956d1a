#include "actors/training/rank/turns.hpp"

namespace pipetrain {

void Turns::run(const std::function<void()>& first, const std::function<void()>& second) {
  failure_ = nullptr;
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
  if (failure_) std::rethrow_exception(failure_);
}

void Turns::pass() {
  if (running_ == none) return;
  const int own = running_, other = 1 - own;
  if (!runs_[static_cast<std::size_t>(other)]) return;
  running_ = other;
  turn_[static_cast<std::size_t>(other)].release();
  turn_[static_cast<std::size_t>(own)].acquire();
  if (failure_) throw LeftOff{};
}

void Turns::run_one(int job, const std::function<void()>& work) {
  try {
    if (!failure_) work();
  } catch (const LeftOff&) {
  } catch (...) {
    failure_ = std::current_exception();
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
