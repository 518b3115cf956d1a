// Says whether a product replaces the gradient in memory or adds to it.
#pragma once

namespace pipetrain {

enum class Accumulate {
  no,   // overwrites it, even NaN; the bits are those of adding to zeros, except for a zero's sign
  yes,  // adds to it
};

}  // namespace pipetrain
