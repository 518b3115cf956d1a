// The forms in which frozen matrices are kept; ops/quantised_matrix.hpp describes their numbers.
#pragma once

#include <cstdint>

namespace pipetrain {

enum class WeightForm : std::uint8_t {
  plain,       // the type that operations read
  bf16,        // 2 bytes an element
  fp8,         // 1 byte
  nf4,         // half a byte, and a 64th for the codes of scales
  nf4_scales,  // nf4 without double quantisation: half a byte, and a 16th for scales in f32
};
constexpr bool is_nf4(WeightForm form) { return form == WeightForm::nf4 || form == WeightForm::nf4_scales; }
constexpr const char* name_of(WeightForm form) {
  return is_nf4(form) ? "nf4" : form == WeightForm::fp8 ? "fp8" : form == WeightForm::bf16 ? "bf16" : "plain";
}

}  // namespace pipetrain
