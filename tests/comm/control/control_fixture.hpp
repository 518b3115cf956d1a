// Several processes of a run, as threads of the test.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/control/settings.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::test {

// Returns a port at which nobody listens now.
std::uint16_t free_port();

// Describes process `process` of a run at a free port of this host, which is given or chosen.
Rendezvous rendezvous_of(int process, int processes, std::uint16_t port);

// Returns shorter times than those of runs, for tests that wait until one is over.
control::Settings quick_settings();

using Planes = std::vector<std::unique_ptr<ControlPlane>>;

// Joins all processes of a run; `change` may change the values that each reports.
Planes join_all(int processes, const control::Settings& settings = {},
                const std::function<void(Rendezvous&)>& change = nullptr);

// Calls the work in this many threads and waits for all.
void in_threads(int count, const std::function<void(int)>& work);

// Leaves with all of them.
void leave_all(Planes& planes);

// Returns the error that the call throws, as kind and text; "nothing" if it throws none.
std::string error_of(const std::function<void()>& call);

// Notes that other threads add.
class Notes {
 public:
  void add(const std::string& note);
  std::vector<std::string> all() const;
  // Waits until there are this many, for at most 30 s.
  std::vector<std::string> wait(std::size_t count) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> notes_;
};

Bytes bytes_of(const std::string& text);
std::string text_of(std::span<const std::byte> bytes);

}  // namespace pipetrain::test
