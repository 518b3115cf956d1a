// Operations that report their durations: a wrapper around any Ops, to measure how a step's time is divided.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "core/device.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {

enum class OpClass { matrix, attention, elementwise, communication };

// The times of one rank's operations. While measuring, every operation is between two timing events of its stream, which are
// read when later operations are enqueued. Set and read it between steps, when the stream is idle; not thread-safe.
class OpTimes {
 public:
  struct Seconds {
    double matrix = 0, attention = 0, elementwise = 0, communication = 0;
    double total() const { return matrix + attention + elementwise + communication; }
  };

  void set_measuring(bool measuring) { measuring_ = measuring; }
  bool measuring() const { return measuring_; }
  // Returns the times measured since the last call.
  Seconds take();

  // For the wrapper: runs `work` between two events, and counts its time as `kind`.
  template <class Work>
  void time(Stream& stream, OpClass kind, Work work) {
    begin(stream, kind);
    work();
    end(stream);
  }
  // `work` is an operation with communication, `alone` the same operation without. The time of `alone` counts as
  // `kind`, and the rest of the time of `work` as communication.
  template <class Work, class Alone>
  void time_both(Stream& stream, OpClass kind, Work work, Alone alone) {
    begin(stream, OpClass::communication);
    work();
    end(stream);
    begin(stream, kind);
    running_.back().taken_out = true;
    alone();
    end(stream);
  }

 private:
  struct Running {
    OpClass kind;
    bool taken_out = false;  // subtracted from communication
    Device* device;
    std::unique_ptr<Event> begin, end;
  };

  void begin(Stream& stream, OpClass kind);
  void end(Stream& stream);
  void collect();
  double& seconds_of(OpClass kind);

  std::atomic<bool> measuring_{false};
  Seconds seconds_;
  std::deque<Running> running_;
  std::vector<std::pair<std::unique_ptr<Event>, std::unique_ptr<Event>>> spare_;
};

// Runs the operations of `ops`. In a tensor-parallel group, while measuring, every matrix product, embedding and loss
// runs a second time as on a single rank, which shows how much time communication adds. A measured step therefore takes
// longer than others.
std::unique_ptr<Ops> make_timed_ops(std::unique_ptr<Ops> ops, std::shared_ptr<OpTimes> times);

}  // namespace pipetrain::bench
