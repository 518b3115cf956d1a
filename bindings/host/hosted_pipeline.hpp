// A pipeline whose computes and inputs are another program's code: refuses calls out of order, and ends only when none of that
// code runs any more.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "bindings/host/callback_watch.hpp"
#include "bindings/host/hosted_stage.hpp"
#include "schedules/timeline.hpp"

namespace pipetrain {

// Makes the compute of a stage, which answers through `stage` alone, and counts its calls with `watch` where the pipeline does
// not make them.
struct HostedRequest {
  StageId id;
  const schedules::StageNeeds& needs;
  std::shared_ptr<HostedStage> stage;
  std::shared_ptr<CallbackWatch> watch;
};
using HostedFactory = std::function<std::shared_ptr<StageCompute>(const HostedRequest&)>;

// All but step() may be called from any thread; step() from one at a time, else Misuse.
class HostedPipeline {
 public:
  // Appends N and O to a plan without them. Throws Error, InvalidPlan.
  HostedPipeline(PipelineOptions options, const HostedFactory& make_compute, const SourceFactory& make_source);
  // As close(); where code of the guest still runs, everything that it may touch stays for ever.
  ~HostedPipeline();

  // Throws RunFailed, and Misuse during another step, from inside the guest's code, and after close().
  void step(StepInfo info, Decide decide);
  // The same in pieces, for who must look after other things meanwhile: `poll` is called every `interval`, and may call
  // abort().
  void step(StepInfo info, Decide decide, std::chrono::milliseconds interval, const std::function<void()>& poll);
  void abort(const std::string& why);
  // Empty where the stages do not answer within two seconds.
  std::vector<std::string> waiting();
  // Of the latest step that ended well. Throws Misuse before that.
  schedules::Timeline timeline() const;
  // Ends the actors and lets go of computes. Throws Misuse, and changes nothing, during a step and where a call into the
  // guest's code has not returned within the grace time.
  void close();

  const schedules::Plan& plan() const { return plan_; }

 private:
  std::shared_ptr<Pipeline> open_pipeline(const char* call) const;
  Decide watched(Decide decide) const;
  void close_stages();

  schedules::Plan plan_;
  std::chrono::milliseconds grace_;
  std::shared_ptr<CallbackWatch> watch_ = std::make_shared<CallbackWatch>();
  std::vector<std::shared_ptr<HostedStage>> stages_;
  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<Pipeline> pipeline_;
  bool busy_ = false;  // with a step, or with its end
  std::optional<StepOutcome> latest_;
};

}  // namespace pipetrain
