// The streams that one rank of a stage enqueues to, and how the host hears of what has run on them.
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
  // Others that the rank enqueues to; they outlive this object's last call.
  void add(const std::vector<Stream*>& others) { others_.insert(others_.end(), others.begin(), others.end()); }

  // Runs when everything that compute() holds by now has, on some host thread. A GPU does not wait for it.
  void call_back(std::function<void()> callback);
  // The first failure of any of them, or null. Thread-safe, never blocks.
  std::exception_ptr failure() const;
  // Ends their work with this cause. Thread-safe.
  void fail(const std::exception_ptr& cause);
  // Waits until none of them runs anything.
  void wait_until_idle() noexcept;

 private:
  std::vector<Stream*> all() const;

  std::unique_ptr<Stream> compute_;
  // On a GPU a host callback holds up its stream, so callbacks have one of their own.
  std::unique_ptr<Stream> callbacks_;
  std::unique_ptr<Event> reached_;
  std::vector<Stream*> others_;
};

}  // namespace pipetrain
