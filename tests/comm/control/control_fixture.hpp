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

// That nobody listens at now.
std::uint16_t free_port();

// Process `process` of a run at a free port of this host, which is given or chosen.
Rendezvous rendezvous_of(int process, int processes, std::uint16_t port);

// Shorter times than those of runs, for what waits until one is over.
control::Settings quick_settings();

using Planes = std::vector<std::unique_ptr<ControlPlane>>;

// All processes of a run, joined; `change` may change what each of them says.
Planes join_all(int processes, const control::Settings& settings = {},
                const std::function<void(Rendezvous&)>& change = nullptr);

// Calls each in a thread of its own and waits for all.
void in_threads(int count, const std::function<void(int)>& work);

// Leaves with all.
void leave_all(Planes& planes);

// What the call throws, as kind and text; "nothing" where it does not.
std::string error_of(const std::function<void()>& call);

// Things that other threads write down.
class Notes {
 public:
  void add(const std::string& note);
  std::vector<std::string> all() const;
  // Waits until there are so many, for at most 30 s.
  std::vector<std::string> wait(std::size_t count) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> notes_;
};

Bytes bytes_of(const std::string& text);
std::string text_of(std::span<const std::byte> bytes);

}  // namespace pipetrain::test
