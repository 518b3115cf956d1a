// The keys of other systems' configuration files, as data: what each means here. One file a system.
#pragma once

#include <span>
#include <string_view>

namespace pipetrain {

enum class ForeignRule {
  maps,     // the value is that of the option `target`; of two options ("beta1 beta2") where it is a list of two
  words,    // the value is one of `words` ("theirs:ours ..."), whose own is that of the option `target`; "*" stands for all
            // others
  when_on,  // true asks for `target` ("precision=bf16"), false for `words` where nothing else in the file does, or for nothing
  holds,    // whatever it says is so here, or does not change what is computed: `target` says why
  holds_for,  // so here for the values in `words`; of another, `target` says what to do
  refused     // `target` says why; not where the option `words` is given on the command line or in the environment
};

struct ForeignKey {
  std::string_view key;  // "optimizer.params.lr"; "pipeline.*": every other key that begins so
  ForeignRule rule;
  std::string_view target, words = {};
};

std::span<const ForeignKey> deepspeed_keys();
std::span<const ForeignKey> torchtitan_keys();
std::span<const ForeignKey> megatron_keys();

}  // namespace pipetrain
