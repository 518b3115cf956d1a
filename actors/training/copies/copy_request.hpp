// Asks all ranks to copy their states between two steps, and to pass the copies on. StageCompute::save_state() carries the
// request in place of a folder's name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/wire.hpp"

namespace pipetrain {

struct CopyRequest {
  std::int64_t step = 0;                // the last one that was done
  std::shared_ptr<const Bytes> record;  // of the run's progress after this step; not null
};

// Returns a text that is no folder's name.
std::string to_target(const CopyRequest& request);
// Returns no value for the name of a folder. Throws Error(peer_lost) for a request that is damaged.
std::optional<CopyRequest> copy_request_of(const std::string& target);

}  // namespace pipetrain
