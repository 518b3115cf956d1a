#include "actors/generation/decoding.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

namespace pipetrain {
namespace {

// A sequence that is being generated in one of the generator's places.
struct Sequence {
  std::size_t prompt = 0;
  std::vector<std::int32_t> ids;  // the prompt's ids, then the generated ones
  std::int64_t computed = 0;      // positions whose keys and values are in the caches or being computed
  std::int64_t new_tokens = 0;
  bool is_long = false;  // it has more positions than rotate by longrope's short factors
};

class Decoder {
 public:
  Decoder(Generator& generator, const std::vector<std::vector<std::int32_t>>& prompts, const Decoding& decoding,
          DecodingEvents& events)
      : generator_(generator),
        prompts_(prompts),
        decoding_(decoding),
        events_(events),
        places_(static_cast<std::size_t>(generator.sequences())) {}

  void run() {
    if (decoding_.max_new_tokens < 1) return end_all();
    while (fill_places() && events_.continues()) {
      generator_.step(next_runs());
      for (std::size_t place = 0; place < places_.size(); ++place) {
        if (places_[place]) continue_prompt(place);
      }
    }
  }

 private:
  void end_all() {
    for (std::size_t prompt = 0; prompt < prompts_.size(); ++prompt) events_.ended(prompt, SequenceEnd::length);
  }

  // Begins prompts in free places. Returns true when any place has a sequence.
  bool fill_places() {
    bool any = false;
    for (auto& place : places_) {
      if (!place && next_ < prompts_.size()) {
        place.emplace(Sequence{next_, prompts_[next_]});
        ++next_;
      }
      any |= place.has_value();
    }
    return any;
  }

  SequenceRuns next_runs() {
    SequenceRuns runs(places_.size());
    for (std::size_t place = 0; place < places_.size(); ++place) {
      if (!places_[place]) continue;
      Sequence& sequence = *places_[place];
      const std::int64_t length = std::ssize(sequence.ids);
      const bool is_long = generator_.short_positions() > 0 && length > generator_.short_positions();
      // The keys in the cache have rotated by the short factors, which no longer hold.
      if (is_long != std::exchange(sequence.is_long, is_long)) sequence.computed = 0;
      const auto begin = sequence.ids.begin() + sequence.computed;
      const auto count = std::min<std::int64_t>(longest_run, sequence.ids.end() - begin);
      runs[place] = {sequence.computed, {begin, begin + count}, length, adapter_of(sequence.prompt)};
      sequence.computed += count;
    }
    return runs;
  }

  int adapter_of(std::size_t prompt) const { return decoding_.adapters.empty() ? 0 : decoding_.adapters[prompt]; }

  void continue_prompt(std::size_t place) {
    Sequence& sequence = *places_[place];
    if (sequence.computed < std::ssize(sequence.ids)) return;  // the rest of a long prompt comes first
    generator_.read_logits(static_cast<int>(place), logits_);
    const std::int32_t id =
        choose_token(decoding_.sampling, logits_, sequence.ids, {sequence.prompt, std::ssize(sequence.ids)});
    const bool ends = std::find(decoding_.end_ids.begin(), decoding_.end_ids.end(), id) != decoding_.end_ids.end();
    if (ends) return end(place, SequenceEnd::end_of_text);
    sequence.ids.push_back(id);
    events_.token(sequence.prompt, id);
    if (++sequence.new_tokens == decoding_.max_new_tokens) end(place, SequenceEnd::length);
  }

  void end(std::size_t place, SequenceEnd how) {
    const std::size_t prompt = places_[place]->prompt;
    places_[place].reset();
    events_.ended(prompt, how);
  }

  Generator& generator_;
  const std::vector<std::vector<std::int32_t>>& prompts_;
  const Decoding& decoding_;
  DecodingEvents& events_;
  std::vector<std::optional<Sequence>> places_;
  std::size_t next_ = 0;  // the next prompt to begin
  std::vector<float> logits_;
};

}  // namespace

void decode_prompts(Generator& generator, const std::vector<std::vector<std::int32_t>>& prompts, const Decoding& decoding,
                    DecodingEvents& events) {
  for ([[maybe_unused]] const auto& prompt : prompts)
    assert(!prompt.empty() && std::ssize(prompt) + decoding.max_new_tokens <= generator.positions());
  assert(decoding.adapters.empty() || decoding.adapters.size() == prompts.size());
  Decoder(generator, prompts, decoding, events).run();
}

}  // namespace pipetrain
