// ExpertExchange brings tokens to the ranks that hold their experts, and the rows that these compute back. Only the devices
// know how many there are: tensors have the most rows that may come.
//
// A rank receives its rows sorted by (expert, source rank, token), and a token's rows come back in the order of its experts. So
// each sum adds in the same order as on a rank that holds all experts.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/relocation.hpp"

namespace pipetrain {

// The rows that this rank's experts compute, sorted by expert.
struct ExpertRows {
  Tensor tokens;   // [R] i32: the token of each row, among those that this rank has or has received
  Tensor weights;  // [R] f32
  Tensor offsets;  // [experts of this rank + 1] i32

  Tensor used() const { return offsets.row_range(offsets.rows() - 1, offsets.rows()); }
};

class ExpertExchange {
 public:
  // The order of one microbatch's tokens and rows.
  struct Saved {
    SentTokens sent;
    Tensor received;  // [ranks + 1] i32: the first token from each rank, then their number
    ReceivedRows rows;

    void relocate(const Relocation& moved) {
      moved.move(sent);
      moved.move(received);
      moved.move(rows);
    }
  };

  explicit ExpertExchange(const Experts& experts) : experts_(experts) {}

  // Returns the most rows that this rank computes.
  std::int64_t rows(const BlockContext& context) const;
  // Tells the other ranks which experts of theirs this rank's tokens have chosen. `saved` is allocated in `memory`.
  // Afterwards routing.places are those of the rows that come back.
  ExpertRows begin(const BlockContext& context, Routing& routing, Arena& memory, Saved& saved) const;
  // Returns the tokens of all ranks that have chosen experts of this one, [N, H], in the workspace. x: [T, H].
  Tensor send(const BlockContext& context, const Tensor& x, const Saved& saved) const;
  // Returns the rows of this rank's tokens, [T C, ...], in the workspace. computed: [R, ...], those of this rank's experts.
  Tensor bring_back(const BlockContext& context, const Tensor& computed, const Saved& saved) const;

 private:
  std::int64_t most_sent(const BlockContext& context) const;
  std::int64_t most_received(const BlockContext& context) const { return context.tokens() * context.ep.part.size; }

  Experts experts_;
};

}  // namespace pipetrain
