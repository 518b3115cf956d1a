// Turns a slice of a matrix into the form in which a rank keeps it (ops/quantised_matrix.hpp). The values of a slice follow
// from the whole logical matrix, so that they do not depend on how many ranks share it.
#pragma once

#include <cstddef>
#include <span>

#include "model/parameters/parameters.hpp"
#include "ops/quantised_matrix.hpp"

namespace pipetrain {

// Returns where the slice lies in its logical matrix [outputs, inputs], whatever order files have it in. Pure.
SliceRuns runs_of(const Parameter& parameter);
// Throws Error(input) about the setting base-precision if the ranks cut through blocks of 64 inputs, which share a scale.
QuantisedLayout quantised_layout_of(const Parameter& parameter, WeightForm form);
// Returns the whole logical matrix as a parameter, for WeightSource::load().
Parameter whole_matrix(const Parameter& slice);

// out [layout.bytes] = the slice. whole: the logical matrix [rows, columns], finite.
void quantise(const QuantisedLayout& layout, std::span<const float> whole, std::byte* out);

}  // namespace pipetrain
