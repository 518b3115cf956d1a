// The modes of recomputation. A block's backward recomputes values, so that less memory is kept between forward and backward.
// All modes run the same operations on the same values, so their results are bitwise equal.
//
// Between F and B (or W) one microbatch keeps, besides the input of every block:
//   none       attention: normed, qkv, heads; MLP: normed, the first matrix's output (whose gradient takes its place), inner;
//              head: normed, logits
//   selective  as none, but without normed and inner, which one elementwise pass recomputes from the values that are kept.
//              Under sequence parallelism normed is kept: it includes the other ranks' rows, and gathering them again costs
//              about as much per byte saved as the whole forward that `full` runs again
//   full       attention and MLP: nothing; everything runs again except their last matrix, whose output no backward reads. The
//              head keeps the same values as under selective: in most schedules its backward comes right after its forward,
//              so recomputing the logits would save nothing
// If sequences are sliced, attention uses selective in place of full, because later slices read its keys and values.
// Statistics (of norms, log_sum_exp) are kept with the values that they belong to. A run may use a mode for some of its layers
// and the next lighter mode for the others: recompute_layers.hpp.
#pragma once

namespace pipetrain {

enum class Recompute { none, selective, full };

}  // namespace pipetrain
