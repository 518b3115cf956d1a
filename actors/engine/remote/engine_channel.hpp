// One process's end of what the engines of a run tell each other: the engine's channel of the control plane, from before the
// first actor is made to after the last is gone. Until a pipeline is attached it only keeps the first failure of another
// process, so that whoever builds this one's part can give up with that cause.
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

// The failure of a process that is gone.
Failure loss_of(const ControlPlane& control, int process, const std::string& why);

// Thread-safe, but for exchanges, which come from the thread that builds and ends the run.
class EngineChannel {
 public:
  // Both are called on threads of the control plane or the transport; they must not block, nor call back into this object but
  // for send().
  struct Receiver {
    std::function<void(int from, std::span<const std::byte> message)> message;
    std::function<void(int process, const Failure& failure)> lost;
  };

  // Throws nothing; takes over the control plane's handlers for the engine and for losses.
  explicit EngineChannel(std::shared_ptr<ControlPlane> control);
  ~EngineChannel();
  EngineChannel(const EngineChannel&) = delete;
  EngineChannel& operator=(const EngineChannel&) = delete;

  int process() const { return control_->process(); }
  int processes() const { return control_->processes(); }
  ControlPlane& control() const { return *control_; }

  void send(int process, const RemoteMessage& message);
  // A process that this one cannot reach any more, by a way other than the control plane.
  void lose(int process, const std::string& why);

  // --- while the run is built ---
  // Called with the first failure of another process, while no pipeline is attached. It may be called twice.
  void on_failure(std::function<void(const Failure&)> handler);
  // Throws the first failure of another process, if there was one.
  void check() const;
  // What each process gave, by process. Throws as ControlPlane::exchange() does, and the failure that was its reason.
  std::vector<Bytes> exchange(const std::string& key, Bytes mine);
  // This process could not build its part, or gave it up: tells the others. Returns what to throw: the first failure of all
  // that it knows.
  std::exception_ptr fail(std::exception_ptr cause);

  // --- a pipeline's ---
  // From now on the receiver hears everything; what another process could not build comes as a loss.
  void attach(Receiver receiver);
  // When it returns the receiver is not called any more.
  void detach();

  // All processes have built their parts: waits for them. Until then, a pipeline that ends ends no run.
  void begin_run();
  bool running() const { return running_; }
  // The run is over, as planned: from now on nobody is missed. Waits until all processes have called it; a failure counts as
  // such a call.
  void end_run() noexcept;
  // Nobody is missed any more.
  void expect_end() { ending_ = true; }

  // Memory that this process's work may still touch: stays until this object goes.
  void keep(std::vector<float> values);

 private:
  void received(int from, std::span<const std::byte> bytes);
  void failed(int process, Failure failure);

  std::shared_ptr<ControlPlane> control_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;  // the first of another process
  std::function<void(const Failure&)> on_failure_;
  std::optional<Receiver> receiver_;
  std::vector<std::vector<float>> kept_;
  std::atomic<bool> running_{false}, ending_{false};
};

}  // namespace pipetrain
