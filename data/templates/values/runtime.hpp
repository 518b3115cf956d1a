// Runtime counts what one rendering of a template takes, so that no template runs or grows without end. Internal to data/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {

struct RenderLimits {
  std::uint64_t steps = 20'000'000;            // nodes of the template that are evaluated
  std::size_t bytes = std::size_t{256} << 20;  // of all values that are made
  std::size_t output = std::size_t{64} << 20;  // bytes of the text
  int depth = 800;                             // of nodes and macros that are evaluated in each other
};

class Runtime {
 public:
  explicit Runtime(const RenderLimits& limits, std::chrono::system_clock::time_point now) : limits_(limits), now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // These throw TemplateFault beyond a limit.
  void charge_step() { charge_steps(1); }
  void charge_steps(std::uint64_t steps);
  void charge_bytes(std::size_t bytes);
  void charge_values(std::size_t count) { charge_bytes(count * sizeof(Value)); }
  void check_output(std::size_t bytes) const;
  void enter();
  void leave() { --depth_; }

  std::chrono::system_clock::time_point now() const { return now_; }
  // The runtime keeps it, and empties it at its own end: namespaces may hold each other.
  std::shared_ptr<Namespace> make_namespace();

 private:
  RenderLimits limits_;
  std::chrono::system_clock::time_point now_;
  std::uint64_t steps_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// Counts one level of nesting while it lives.
class Level {
 public:
  explicit Level(Runtime& runtime) : runtime_(runtime) { runtime_.enter(); }
  ~Level() { runtime_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Runtime& runtime_;
};

}  // namespace pipetrain::templates
