// Tables of the keys in other systems' configuration files, and their meaning here. One file for each system.
#pragma once

#include <span>
#include <string_view>

namespace pipetrain {

enum class ForeignRule {
  maps,     // the value becomes that of the option `target`; a list of two values becomes those of two options ("beta1 beta2")
  words,    // the value is one of `words` ("theirs:ours ..."), whose own is that of the option `target`; "*" stands for all
            // others
  when_on,  // true gives `target` ("precision=bf16"); false gives `words` unless another key of the file sets that option
  holds,    // any value already holds here, or does not change the results: `target` says why
  holds_for,  // the values in `words` hold here; for others, `target` says what to do
  refused     // `target` says why; accepted if the option `words` is given on the command line or in the environment
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
