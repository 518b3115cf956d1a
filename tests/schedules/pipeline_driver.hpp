// All stages of a plan with the queues between them, driven one message at a time. The caller chooses which message
// comes next, so that tests can try random orders and all orders. Messages of one sender to one receiver about one
// thing keep their order; nothing else is promised, as between actors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules/plan/validate.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class PipelineDriver {
 public:
  PipelineDriver(std::shared_ptr<const Plan> plan, Order order, std::vector<StageNeeds> needs, int run_ahead = 2,
                 SlotLife life = {})
      : plan_(std::move(plan)), order_(order), life_(life), traces(plan_->stages.size()), begun_(plan_->stages.size()) {
    const int chunks = plan_->placement.chunks();
    for (int stage = 0; stage < plan_->placement.stages(); ++stage) {
      protocols.emplace_back(plan_, stage, order, run_ahead);
      for (int c = 0; c < chunks; ++c) {
        const ChunkNeeds& slots = needs[static_cast<std::size_t>(stage)].chunks[static_cast<std::size_t>(c)];
        const int v = plan_->placement.virtual_stage(stage, c);
        for (int i = 0; i < slots.activation_slots; ++i) return_slot(InputKind::activation, v);
        for (int i = 0; i < slots.gradient_slots; ++i) return_slot(InputKind::gradient, v);
        for (int i = 0; i < slots.target_slots; ++i) return_slot(InputKind::target, v);
      }
    }
  }

  // With NextStep::at_once another step follows, whose tokens and targets arrive as soon as there is room.
  void begin_step(StepKind kind = StepKind::training, NextStep next = NextStep::unknown) {
    kind_ = kind;
    norms_ = 0;
    const bool announced = next_ == NextStep::at_once;
    for (int* fed : {&fed_tokens_, &fed_targets_}) *fed = announced ? *fed - plan_->microbatches : 0;
    next_ = next;
    for (int stage = 0; stage < plan_->placement.stages(); ++stage) send({Event::begin, stage, {}, {}});
    feed();
  }

  // The keys of channels that hold a message.
  std::vector<std::string> deliverable() const {
    std::vector<std::string> keys;
    for (const auto& [key, channel] : channels_)
      if (!channel.empty()) keys.push_back(key);
    return keys;
  }

  void deliver(const std::string& key) {
    const Event event = channels_.at(key).front();
    channels_.at(key).pop_front();
    ++delivered_[key];
    StageProtocol& protocol = protocols[static_cast<std::size_t>(event.stage)];
    switch (event.type) {
      case Event::begin:
        protocol.begin_step(kind_, nullptr, next_);
        ++begun_[static_cast<std::size_t>(event.stage)];
        break;
      case Event::input:
        take_input(event);
        break;
      case Event::credit:
        protocol.credit_returned(event.kind, event.action.chunk);
        break;
      case Event::done:
        if (protocol.step_of(event.action) == StepOf::taken_back) end_stale(event.stage, event.action);
        for (const int custom : protocol.completed(event.action))
          send({Event::signal, plan_->custom[static_cast<std::size_t>(custom)].stage, {}, {ActionKind::custom, 0, custom}});
        on_completed(event.stage, event.action);
        break;
      case Event::signal:
        protocol.signalled(event.action.microbatch);
        break;
      case Event::verdict:
        on_verdict(event.stage);
        break;
    }
    while (const auto action = protocol.next()) on_launched(event.stage, *action, protocol.is_early());
  }

  // Delivers until nothing is left; `choose(n)` returns an index below n.
  template <class Choose>
  void run(const Choose& choose) {
    for (auto keys = deliverable(); !keys.empty(); keys = deliverable()) deliver(keys[choose(keys.size())]);
  }

  bool all_done() const {
    for (const auto& protocol : protocols)
      if (!protocol.step_done()) return false;
    return true;
  }

  int norms() const { return norms_; }  // those of the running step that have completed

  std::string report() const {
    std::string text;
    for (std::size_t s = 0; s < protocols.size(); ++s)
      text += "stage " + std::to_string(s) + ": " + protocols[s].waiting_for() + "\n";
    return text;
  }

  // Equal for equal states of all stages and channels: the launched actions, and the delivered messages.
  std::string fingerprint() const {
    std::string text;
    for (const auto& [key, count] : delivered_) text += key + "=" + std::to_string(count) + ";";
    for (const auto& trace : traces) text += trace + "|";
    return text;
  }

 private:
  struct Event {
    enum Type { begin, input, credit, done, verdict, signal } type;
    int stage;
    InputKind kind;
    Action action;       // its chunk and microbatch name the message
    int depends_on = 0;  // for an input: the step whose verdict may take it back; 0: none
  };

  void send(const Event& event) {
    static const char* names[] = {"begin", "input", "credit", "done", "verdict", "signal"};
    std::string key = std::string(names[event.type]) + std::to_string(event.stage);
    if (event.type == Event::input || event.type == Event::credit)
      key += "." + std::to_string(event.action.chunk) +
             "ag t"[static_cast<int>(event.kind) == 2 ? 3 : static_cast<int>(event.kind)];
    channels_[key].push_back(event);
  }
  void send_input(InputKind kind, int v, int microbatch, int depends_on = 0) {
    const StageChunk to = plan_->placement.at(v);
    send({Event::input, to.stage, kind, {ActionKind::forward, static_cast<std::int16_t>(to.chunk), microbatch}, depends_on});
  }
  // As a stage actor does, returns provisional inputs when the verdict takes them back and nobody reads them.
  void take_input(const Event& event) {
    StageProtocol& protocol = protocols[static_cast<std::size_t>(event.stage)];
    Early& early = early_[event.stage];
    const std::pair at(static_cast<int>(event.action.chunk), event.action.microbatch);
    if (event.depends_on != 0 && event.depends_on == early.refused)
      return return_slot(event.kind, plan_->placement.virtual_stage(event.stage, event.action.chunk));
    if (event.kind == InputKind::activation && early.provisional.contains(at)) return early.fresh.push_back(event);
    protocol.input_arrived(event.kind, event.action.chunk, event.action.microbatch);
    if (event.depends_on > early.judged) early.provisional.insert(at);
  }
  void end_stale(int stage, const Action& reader) {
    if (early_[stage].stale.erase({static_cast<int>(reader.chunk), reader.microbatch}) > 0)
      return_slot(InputKind::activation, plan_->placement.virtual_stage(stage, reader.chunk));
  }
  // Tells the sender that a slot of the queue into virtual stage v is free.
  void return_slot(InputKind kind, int v) {
    const int sender = kind == InputKind::gradient ? v + 1 : v - 1;
    if (kind == InputKind::target) {
      ++target_slots_, feed();
    } else if (sender < 0) {
      ++token_slots_, feed();
    } else {
      const StageChunk to = plan_->placement.at(sender);
      send({Event::credit, to.stage, kind, {ActionKind::forward, static_cast<std::int16_t>(to.chunk), -1}});
    }
  }
  void feed() {
    const int m = plan_->microbatches, end = next_ == NextStep::at_once ? 2 * m : m;
    for (; fed_tokens_ < end && token_slots_ > 0; ++fed_tokens_, --token_slots_)
      send_input(InputKind::activation, 0, fed_tokens_ % m);
    for (; fed_targets_ < end && target_slots_ > 0; ++fed_targets_, --target_slots_)
      send_input(InputKind::target, plan_->placement.virtual_stages() - 1, fed_targets_ % m);
  }
  static bool is_input_grad(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_grad; }
  void send_output(int v, const Action& action, int depends_on = 0) {
    if (action.kind == ActionKind::forward && v + 1 < plan_->placement.virtual_stages())
      send_input(InputKind::activation, v + 1, action.microbatch, depends_on);
    if (is_input_grad(action.kind) && v > 0) send_input(InputKind::gradient, v - 1, action.microbatch);
  }
  void on_launched(int stage, const Action& action, bool early) {
    const auto at = static_cast<std::size_t>(stage);
    const std::string text = to_string(action, plan_->placement.chunks()) + " ";
    traces[at] += text;
    if (action.kind != ActionKind::preview) standing[{stage, begun_[at] + (early ? 1 : 0)}] += text;
    previews += action.kind == ActionKind::preview ? 1 : 0;
    send({Event::done, stage, {}, action});
    if (order_ != Order::planned || !is_compute(action.kind)) return;
    const int v = plan_->placement.virtual_stage(stage, action.chunk);
    if (!early || !protocols[at].waits_for_verdict()) return send_output(v, action);
    if (!keeps_outputs) return send_output(v, action, begun_[at]);
    early_[stage].unsent.push_back(action);
  }
  void on_verdict(int stage) {
    StageProtocol& protocol = protocols[static_cast<std::size_t>(stage)];
    Early& early = early_[stage];
    early.judged = begun_[static_cast<std::size_t>(stage)];
    const bool taken_back = protocol.verdict(kind_ == StepKind::training && applies, confirms);
    for (const Action& action : std::exchange(early.unsent, {})) {
      const int v = plan_->placement.virtual_stage(stage, action.chunk);
      if (!taken_back) send_output(v, action);
      if (taken_back && v + 1 < plan_->placement.virtual_stages())
        protocol.credit_returned(InputKind::activation, action.chunk);
    }
    const auto provisional = std::exchange(early.provisional, {});
    if (taken_back) take_back(stage, provisional);
  }
  void take_back(int stage, const std::set<std::pair<int, int>>& provisional) {
    StageProtocol& protocol = protocols[static_cast<std::size_t>(stage)];
    Early& early = early_[stage];
    early.refused = early.judged;
    standing[{stage, early.judged + 1}].clear();
    ++takes_back;
    for (const auto& [chunk, microbatch] : provisional) {
      const Action reader{ActionKind::forward, static_cast<std::int16_t>(chunk), microbatch};
      protocol.input_taken_back(chunk, microbatch);
      const auto running = protocol.running();
      if (std::find(running.begin(), running.end(), reader) != running.end() &&
          protocol.step_of(reader) == StepOf::taken_back) {
        early.stale.insert({chunk, microbatch});
      } else {
        return_slot(InputKind::activation, plan_->placement.virtual_stage(stage, chunk));
      }
    }
    for (const Event& event : std::exchange(early.fresh, {})) take_input(event);
  }
  void on_completed(int stage, const Action& action) {
    if (action.kind == ActionKind::norm && ++norms_ == plan_->placement.stages())
      for (int s = 0; s < norms_; ++s) send({Event::verdict, s, {}, {}});
    if (!is_compute(action.kind)) return;
    const int v = plan_->placement.virtual_stage(stage, action.chunk);
    if (order_ == Order::ready) send_output(v, action);
    const auto ends = [&](ActionKind last_reader) {
      if (kind_ == StepKind::evaluation) return action.kind == ActionKind::forward;
      if (last_reader == ActionKind::forward) return action.kind == ActionKind::forward;
      if (last_reader == ActionKind::weight_grad)
        return action.kind == ActionKind::backward || action.kind == ActionKind::weight_grad;
      return is_input_grad(action.kind);
    };
    if (ends(life_.activation)) return_slot(InputKind::activation, v);
    if (ends(life_.activation) && v + 1 == plan_->placement.virtual_stages()) return_slot(InputKind::target, v);
    if (kind_ == StepKind::training && ends(life_.gradient) && v + 1 < plan_->placement.virtual_stages())
      return_slot(InputKind::gradient, v);
  }

  std::shared_ptr<const Plan> plan_;
  Order order_;
  SlotLife life_;
  StepKind kind_ = StepKind::training;
  std::map<std::string, std::deque<Event>> channels_;
  std::map<std::string, int> delivered_;
  int token_slots_ = 0, target_slots_ = 0, norms_ = 0;
  int fed_tokens_ = 1 << 30, fed_targets_ = 1 << 30;  // nothing before the first step
  NextStep next_ = NextStep::unknown;
  struct Early {
    std::vector<Action> unsent;                        // early forwards whose outputs wait for the verdict
    std::set<std::pair<int, int>> provisional, stale;  // activations, by chunk and microbatch
    std::vector<Event> fresh;
    int judged = 0, refused = 0;  // steps
  };
  std::map<int, Early> early_;  // by stage

 public:
  std::vector<StageProtocol> protocols;
  std::vector<std::string> traces;                      // by stage, the launched actions: "F0 F1 B0 "
  bool keeps_outputs = false;                           // of early forwards, until the verdict
  bool applies = true, confirms = false;                // the verdict of a training step
  std::map<std::pair<int, int>, std::string> standing;  // by stage and step, from 1: actions launched and not taken back
  int previews = 0, takes_back = 0;                     // of all stages and steps

 private:
  std::vector<int> begun_;  // by stage: steps
};

// Returns one stage's list as text: "F0 F1 B0".
inline std::string list_text(const Plan& plan, int stage) {
  std::string text;
  for (const Action& action : plan.stages[static_cast<std::size_t>(stage)])
    text += (text.empty() ? "" : " ") + to_string(action, plan.placement.chunks());
  return text;
}

}  // namespace pipetrain::schedules
