// The slots that a stage holds: inputs that have arrived, credits for outputs, and the slots of launched actions. It takes
// them for a launch, and sends them on.
//
// A stage may begin the coming step before the running one is over: see schedules/protocol/stage_protocol.hpp. Outputs that
// depend on the verdict are marked. When the verdict takes an output back, its holder releases it, and the slot's credit
// returns to its producer in the ordinary way. Outputs for other processes wait here for the verdict, so nothing that was
// sent is taken back.
#pragma once

#include <deque>
#include <vector>

#include "actors/engine/stage_setup.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain {

// Belongs to one stage actor, and is used on its thread alone. The setup and the protocol are the actor's.
class StageSlots {
 public:
  StageSlots(caf::event_based_actor& actor, const StageSetup& setup, schedules::StageProtocol& protocol)
      : actor_(actor), setup_(setup), protocol_(protocol), chunks_(setup.chunks.size()) {}

  void begin_step(const StepInfo& step);
  void take_input(Arrived message);
  void add_credit(Credit& message);
  void add_to(Launch& launch);   // the inputs and the output of a compute action
  void pass_on(Launch& launch);  // sends the output on and returns the released slots
  void clear();
  // Inputs that arrive later are only kept.
  void abort() { aborted_ = true; }

  // --- actions of the coming step before the verdict on the running one ---
  void enqueued_early(Launch& launch);
  void confirm();
  // After a verdict that does not confirm. Launches that are not enqueued yet are given back when they are.
  void take_back();
  void give_back(Launch& launch);  // takes back its slots, so that it can be launched again
  // A forward that was taken back has completed.
  void end_stale(const schedules::Action& reader);

 private:
  // Slots of queues, indexed by microbatch.
  struct InputSlots {
    std::vector<SlotHandle> activations, gradients, targets;
    std::vector<bool> provisional;  // of activations: true where they depend on the verdict; may be shorter
    std::vector<SlotHandle>& of(schedules::InputKind kind);
    bool is_provisional(int microbatch) const {
      return static_cast<std::size_t>(microbatch) < provisional.size() && provisional[static_cast<std::size_t>(microbatch)];
    }
  };
  // The slots that a chunk holds, and the free slots of the queues that it fills.
  struct ChunkSlots {
    InputSlots running, coming;  // by step
    std::deque<SlotHandle> activation_credits, gradient_credits;
  };
  // An activation that was taken back while a forward still reads it.
  struct Stale {
    schedules::Action reader;
    SlotHandle slot;
  };

  ChunkSlots& slots_of(int chunk) { return chunks_[static_cast<std::size_t>(chunk)]; }
  const StageSetup::ChunkQueues& queues_of(int chunk) const { return setup_.chunks[static_cast<std::size_t>(chunk)]; }
  void add_inputs(Launch& launch);
  void add_output(Launch& launch);
  void send_output(Launch& launch, std::int64_t depends_on);
  void take_back_inputs(int chunk);
  std::vector<Stale>::iterator find_stale(const schedules::Action& reader);

  caf::event_based_actor& actor_;
  const StageSetup& setup_;
  schedules::StageProtocol& protocol_;
  std::vector<ChunkSlots> chunks_;
  schedules::SlotLife slot_life_;  // of the running step
  // Numbers of training steps: the running one; the last one whose verdict took early work back.
  std::int64_t step_ = 0, refused_ = 0;
  bool judged_ = false;  // the running step has its verdict
  bool aborted_ = false;
  std::vector<Launch> unsent_;  // early forwards whose slots wait for the verdict
  std::vector<Stale> stale_;
  std::vector<Arrived> fresh_;  // replace provisional inputs once the verdict is known here
};

}  // namespace pipetrain
