// Computes how long the ranks of a stage exchange activations for one block and microbatch: pieces of tensor-parallel products,
// and tokens that travel to their experts.
#pragma once

#include "model/parameters/parameters.hpp"
#include "tuning/host_links.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

// Seconds of the exchanges of a block.
struct Exchanges {
  double forward = 0, input_grad = 0;
  double again = 0;     // of those that recomputing the whole forward repeats
  double hideable = 0;  // of F's, and of I's, that a braid hides
};

// Thread-safe. The request and the links must outlive it.
class ExchangeCosts {
 public:
  ExchangeCosts(const LayoutRequest& request, const HostLinks& links) : request_(request), links_(links) {}

  // The products that hide tensor-parallel exchanges on GPUs.
  struct ProductSeconds {
    double forward = 0, input_grad = 0;
  };
  Exchanges of(const Block& block, const Layout& layout, const ProductSeconds& products) const;

 private:
  // Returns the seconds of tensor-parallel exchanges in F or in I that the products, of `product` seconds, do not hide.
  double of_pieces(const Layout& layout, double product) const;
  // Returns the seconds in which a routed block's tokens travel to their experts and back over this link, in F and again in I.
  double of_experts(const Block& block, const Layout& layout, const LinkSpeed& link) const;

  const LayoutRequest& request_;
  const HostLinks& links_;
};

}  // namespace pipetrain
