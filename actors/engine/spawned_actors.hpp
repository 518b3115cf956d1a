// The actors that a pipeline has spawned in this process, so that it can end all of them.
#pragma once

#include <utility>
#include <vector>

#include "actors/engine/caf.hpp"

namespace pipetrain {

struct SpawnedActors {
  caf::actor_system& system;
  std::vector<caf::actor> all = {};

  template <class Actor, class... Arguments>
  caf::actor spawn(Arguments&&... arguments) {
    all.push_back(system.spawn<Actor>(std::forward<Arguments>(arguments)...));
    return all.back();
  }
};

}  // namespace pipetrain
