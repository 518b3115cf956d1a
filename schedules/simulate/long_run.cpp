#include "schedules/simulate/long_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <random>
#include <stdexcept>

namespace pipetrain::schedules {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

void check_long_run(const LongRun& run) {
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  const auto time = [](double value) { return value >= 0 && std::isfinite(value); };
  const bool fits = positive(run.length) && positive(run.step) && positive(run.save_every) && run.hosts >= 1 &&
                    run.spares >= 0 && time(run.host_rate) && time(run.repair) && time(run.save_stall) && time(run.restart) &&
                    time(run.takeover);
  const bool slows = !run.slowdowns.empty() &&
                     std::ranges::all_of(run.slowdowns, [](double slow) { return slow >= 1 && std::isfinite(slow); });
  if (!fits || !slows) throw std::invalid_argument("a time, rate or number of hosts of the long run is out of range");
}

// The clock, the hosts and the progress of one run. Work is counted in seconds of the undisturbed run.
class HostFailures {
 public:
  explicit HostFailures(const LongRun& run) : run_(run), spares_(run.spares), random_(run.seed) { draw_failure(); }

  LongRunResult simulate() {
    while (now_ < run_.length) {
      const double next_save = now_ + (run_.save_every - (done_ - saved_)) * slowdown();
      const double next = std::min({next_failure_, next_repair(), next_save, run_.length});
      compute_until(next);
      if (next == next_failure_)
        fail();
      else if (next == next_repair())
        return_host();
      else if (next == next_save && next < run_.length)
        save();
    }
    return result();
  }

 private:
  double slowdown() const { return doubled_.empty() ? 1 : *std::ranges::max_element(doubled_); }
  double next_repair() const { return repairs_.empty() ? never : std::max(now_, repairs_.top()); }
  double uniform() { return (static_cast<double>(random_() >> 11) + 1) * 0x1p-53; }  // above 0, at most 1
  void draw_failure() {
    const double rate = run_.host_rate * run_.hosts;
    next_failure_ = rate > 0 ? now_ - std::log(uniform()) / rate : never;
  }

  void compute_until(double end) {
    const double passed = end - now_, work = passed / slowdown();
    done_ += work;
    slowed_ += passed - work;
    now_ = end;
  }

  void save() {
    saved_ = done_;
    const double end = std::min(now_ + run_.save_stall, run_.length);
    saving_ += end - now_;
    now_ = end;  // a failure that comes during the stall is met at its end
    next_failure_ = std::max(next_failure_, now_);
  }

  void lose_work(double kept) {
    repeated_ += done_ - kept;
    done_ = kept;
  }

  // Passes time without steps. Returns false if a host failed meanwhile; the clock then stands at that failure.
  bool wait(double seconds) {
    const double end = std::min({now_ + seconds, run_.length}), until = std::min(end, next_failure_);
    down_ += until - now_;
    now_ = until;
    return now_ == run_.length || until < next_failure_;
  }

  void fail() {
    lose_host();
    if (run_.recovery == Recovery::restart || !take_over()) restart();
  }

  // Counts the failure, and sends the host to its repair.
  void lose_host() {
    ++failures_;
    repairs_.push(now_ + run_.repair);
    ++missing_;
    draw_failure();
  }

  // Replaces the missing hosts by spares, as many as there are.
  void use_spares() {
    for (; !repairs_.empty() && repairs_.top() <= now_; repairs_.pop()) ++spares_;
    const int used = std::min(missing_, spares_);
    missing_ -= used, spares_ -= used;
  }

  // Returns false if no copy of a lost host's state is left: one other host has it.
  bool take_over() {
    if (run_.hosts == 1) return false;
    lose_work(std::floor(done_ / run_.step) * run_.step);  // the step in flight
    while (!wait(run_.takeover)) {
      lose_host();
      if (uniform() * (run_.hosts - 1) <= 1) return false;
    }
    share_missing();
    return true;
  }

  // Spares take the ranks of missing hosts; other hosts of the run compute for the rest.
  void share_missing() {
    use_spares();
    doubled_.resize(std::min<std::size_t>(doubled_.size(), missing_));
    while (std::ssize(doubled_) < missing_) doubled_.push_back(run_.slowdowns[random_() % run_.slowdowns.size()]);
  }

  void restart() {
    lose_work(saved_);
    ++restarts_;
    for (bool begun = false; !begun && now_ < run_.length;) {
      use_spares();
      const double hosts_there = missing_ > 0 ? next_repair() - now_ : 0;
      begun = wait(hosts_there) && (missing_ > 0 || wait(run_.restart));
      if (!begun)
        lose_host();
      else if (missing_ > 0)
        begun = now_ >= run_.length;  // one host more is there: count again
    }
    doubled_.clear();
  }

  void return_host() {
    const bool needed = missing_ > 0;
    use_spares();
    if (!needed) return;
    if (!wait(run_.takeover)) return fail();  // the ranks had not moved yet
    share_missing();
  }

  LongRunResult result() const {
    return {done_ / run_.length,
            repeated_ / run_.length,
            down_ / run_.length,
            slowed_ / run_.length,
            saving_ / run_.length,
            failures_,
            restarts_};
  }

  const LongRun& run_;
  int spares_, missing_ = 0, failures_ = 0, restarts_ = 0;
  std::mt19937_64 random_;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;  // when failed hosts return
  std::vector<double> doubled_;                                               // a slowdown for each missing host
  double now_ = 0, next_failure_ = never, done_ = 0, saved_ = 0;
  double repeated_ = 0, down_ = 0, slowed_ = 0, saving_ = 0;
};

}  // namespace

LongRunResult simulate_long_run(const LongRun& run) {
  check_long_run(run);
  return HostFailures(run).simulate();
}

double best_save_interval(const LongRun& run) {
  const double rate = run.host_rate * run.hosts;
  if (rate <= 0) return run.length;
  return std::max(run.step, std::sqrt(2 * run.save_stall / rate));
}

}  // namespace pipetrain::schedules
