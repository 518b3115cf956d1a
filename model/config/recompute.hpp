// A block's backward computes parts of its forward again so that less is kept between the two. Each mode runs the same
// operations on the same values as keeping them would, so results are the same to the bit.
//
// Between F and B (or W) one microbatch keeps, besides the input of every block:
//   none       attention: normed, qkv, heads; MLP: normed, the first matrix's output (whose gradient takes its place), inner;
//              routed experts: as an MLP, the experts' inputs and the routing; head: normed, logits
//   selective  without normed, inner and the experts' inputs, which one elementwise pass makes again from what is kept. Under
//   sequence parallelism
//              normed is kept: it holds the other ranks' rows, and fetching them again costs about as much per byte saved as
//              the whole forward of `full` does
//   full       attention, MLP and experts: nothing; all but their last matrix, whose output no backward reads, runs again. The
//   head
//              keeps what it keeps under selective: where its backward comes right after its forward, as in most schedules,
//              computing the logits again would save nothing
// For slices of a sequence, attention does as under selective where full is asked for: later slices read its keys and values.
// Statistics (of norms, log_sum_exp) are kept with what they belong to. A run may do so with some of its layers and less with
// the others: recompute_layers.hpp.
#pragma once

namespace pipetrain {

enum class Recompute { none, selective, full };

}  // namespace pipetrain
