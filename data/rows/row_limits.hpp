// The limits on rows that are samples of their own. Internal to data/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/rows/preference_form.hpp"

namespace pipetrain {

struct RowLimits {
  std::int64_t sequence_length = 0;  // as the user chose it; 0: any
  std::int64_t max_positions = 0;    // the model's; 0: any
  std::int64_t vocabulary = 256;
  std::int64_t classes = 0;  // 0: the labels are tokens
  std::optional<PreferenceReading> preferences = {};

  bool classifies() const { return classes > 0; }
  // Returns how many ids a model reads of a row with this many tokens: a language model reads all but the last.
  std::int64_t ids_of(std::int64_t tokens) const { return classifies() ? tokens : tokens - 1; }
  // Returns what is wrong with a row of this many tokens, called `what` ("input_ids"), or nothing.
  std::string wrong_length(std::int64_t tokens, std::string_view what) const;
  // Returns what is wrong with a row's class, or nothing.
  std::string wrong_class(const std::optional<std::int64_t>& label) const;
};

}  // namespace pipetrain
