// The streams that one rank of a stage enqueues to, and the callbacks that tell the host when their work has run.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace pipetrain {

class RankStreams {
 public:
  RankStreams(Device& device, const std::string& name);

  Stream& compute() { return *compute_; }
  // Adds streams that the rank also enqueues to; they must outlive the last call to this object.
  void add(const std::vector<Stream*>& others) { others_.insert(others_.end(), others.begin(), others.end()); }

  // Calls back, on some host thread, when everything that compute() holds now has run. A GPU does not wait for the callback.
  void call_back(std::function<void()> callback);
  // Returns the first failure of any stream, or null. Thread-safe, never blocks.
  std::exception_ptr failure() const;
  // Ends the work of all streams with this cause. Thread-safe; never waits for a device or its driver.
  void fail(const std::exception_ptr& cause);
  // Makes pending callbacks run if the device has a fault, after which it calls nothing back. Thread-safe. May wait for the
  // driver while another thread enqueues: call it when nothing on the device waits for other ranks any more.
  void release_callbacks();
  // Waits until no stream runs anything.
  void wait_until_idle() noexcept;

 private:
  std::vector<Stream*> all() const;

  std::unique_ptr<Stream> compute_;
  // A host callback on a GPU holds up its stream, so callbacks have a stream of their own.
  std::unique_ptr<Stream> callbacks_;
  std::unique_ptr<Event> reached_;
  std::vector<Stream*> others_;
};

}  // namespace pipetrain
