// This process's end of the engine's channel of the control plane, from before the first actor is made until after the
// last is gone. Until a pipeline is attached it only keeps the first failure of another process, so that the code that
// builds this process's part can give up with that cause.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/engine/failure.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain {

struct RemoteMessage;

// Returns the failure for a process that is gone.
Failure loss_of(const ControlPlane& control, int process, const std::string& why);

// Thread-safe, except exchanges, which must come from the thread that builds and ends the run.
class EngineChannel {
 public:
  // Both run on threads of the control plane or the transport; they must not block, nor call this object except send().
  struct Receiver {
    std::function<void(int from, std::span<const std::byte> message)> message;
    std::function<void(int process, const Failure& failure)> lost;
  };

  // Throws nothing; takes over the control plane's handlers for the engine's messages and for losses.
  explicit EngineChannel(std::shared_ptr<ControlPlane> control);
  ~EngineChannel();
  EngineChannel(const EngineChannel&) = delete;
  EngineChannel& operator=(const EngineChannel&) = delete;

  int process() const { return control_->process(); }
  int processes() const { return control_->processes(); }
  ControlPlane& control() const { return *control_; }

  void send(int process, const RemoteMessage& message);
  // This process can no longer reach that one by a way other than the control plane.
  void lose(int process, const std::string& why);

  // --- while the run is built ---
  // Called with the first failure of another process, while no pipeline is attached. It may be called twice.
  void on_failure(std::function<void(const Failure&)> handler);
  // Throws the first failure of another process, if there was one.
  void check() const;
  // Returns the value of each process, by process. Throws as ControlPlane::exchange() does, or the failure that was its reason.
  std::vector<Bytes> exchange(const std::string& key, Bytes mine);
  // Informs the other processes that this one could not build its part or gave it up. Returns the exception to throw, which
  // is the first failure known here.
  std::exception_ptr fail(std::exception_ptr cause);

  // --- while a pipeline is attached ---
  // From now on the receiver gets everything; a failure of another process to build its part comes as a loss.
  void attach(Receiver receiver);
  // When it returns the receiver is not called any more.
  void detach();

  // Waits until all processes have built their parts. A pipeline that ends before this does not end the run.
  void begin_run();
  bool running() const { return running_; }
  // Ends the run as planned: processes that leave from now on are not lost. Waits until all processes have called it or failed.
  void end_run() noexcept;
  // From now on a process that leaves is not lost.
  void expect_end() { ending_ = true; }

  // Keeps memory that this process's work may still touch until this object is destroyed.
  void keep(std::vector<float> values);

 private:
  void received(int from, std::span<const std::byte> bytes);
  void failed(int process, Failure failure);

  std::shared_ptr<ControlPlane> control_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;  // the first one of another process
  std::function<void(const Failure&)> on_failure_;
  std::optional<Receiver> receiver_;
  std::vector<std::vector<float>> kept_;
  std::atomic<bool> running_{false}, ending_{false};
};

}  // namespace pipetrain
