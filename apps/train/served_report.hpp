// Serves the report of a run to browsers, as long as the run lasts: over all its layouts and memberships.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/options/train_options.hpp"
#include "comm/served/page_server.hpp"

namespace pipetrain {

// Not thread-safe.
class ServedReport {
 public:
  // Begins in the process that leads, if --serve asks for it and it has not begun. Returns a line with the address then.
  // Throws Error(unavailable).
  std::optional<std::string> begin(const TrainOptions& options);
  // Returns null if nothing is served.
  PageServer* server() { return server_.get(); }
  // Takes at most 1 s, in which browsers get the end of the run.
  void end() { server_.reset(); }

 private:
  std::unique_ptr<PageServer> server_;
};

}  // namespace pipetrain
