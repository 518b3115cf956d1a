#include "model/experts/expert_exchange.hpp"

#include <algorithm>

namespace pipetrain {

std::int64_t ExpertExchange::rows(const BlockContext& context) const {
  return most_received(context) * std::min(experts_.chosen, experts_.count / context.ep.part.size);
}

std::int64_t ExpertExchange::most_sent(const BlockContext& context) const {
  return context.tokens() * std::min<std::int64_t>(experts_.chosen, context.ep.part.size);
}

ExpertRows ExpertExchange::begin(const BlockContext& context, Routing& routing, Arena& memory, Saved& saved) const {
  const std::int64_t ranks = context.ep.part.size, sent = most_sent(context), received = most_received(context);
  saved.sent = {.tokens = memory.allocate({sent}, DType::i32),
                .offsets = memory.allocate({ranks + 1}, DType::i32),
                .places = memory.allocate(routing.places.shape, DType::i32)};
  saved.received = memory.allocate({ranks + 1}, DType::i32);
  saved.rows = {.tokens = memory.allocate({rows(context)}, DType::i32),
                .weights = memory.allocate({rows(context)}, DType::f32),
                .offsets = memory.allocate({experts_.count / ranks + 1}, DType::i32),
                .returned = memory.allocate({rows(context)}, DType::i32),
                .return_offsets = memory.allocate({ranks + 1}, DType::i32)};
  const ArenaScope scope(context.workspace);
  SentTokens sending = saved.sent;
  sending.experts = context.workspace.allocate({sent, experts_.chosen}, DType::i32);
  sending.weights = context.workspace.allocate({sent, experts_.chosen}, DType::f32);
  const Tensor experts = context.workspace.allocate({received, experts_.chosen}, DType::i32);
  const Tensor weights = context.workspace.allocate({received, experts_.chosen}, DType::f32);
  context.ops.send_tokens({.routing = routing, .sent = sending});
  context.ops.exchange_rows({.group = context.ep.group,
                             .exchange = {.rows = {{sending.experts, experts}, {sending.weights, weights}},
                                          .offsets = sending.offsets,
                                          .received = saved.received,
                                          .most = context.tokens()}});
  context.ops.sort_received({.experts = experts, .weights = weights, .offsets = saved.received, .rows = saved.rows});
  routing.places = saved.sent.places;
  return {saved.rows.tokens, saved.rows.weights, saved.rows.offsets};
}

Tensor ExpertExchange::send(const BlockContext& context, const Tensor& x, const Saved& saved) const {
  const Tensor received = context.workspace.allocate({most_received(context), x.shape[1]}, x.dtype);
  context.ops.exchange_rows({.group = context.ep.group,
                             .exchange = {.rows = {{x, received, saved.sent.tokens}},
                                          .offsets = saved.sent.offsets,
                                          .received = saved.received,
                                          .most = context.tokens()}});
  return received;
}

Tensor ExpertExchange::bring_back(const BlockContext& context, const Tensor& computed, const Saved& saved) const {
  const std::int64_t own = context.tokens() * experts_.chosen;
  const Tensor back = context.workspace.allocate(computed.shape.with(0, own), computed.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor received = context.workspace.allocate({context.ep.part.size + 1}, DType::i32);
  context.ops.exchange_rows({.group = context.ep.group,
                             .exchange = {.rows = {{computed, back, saved.rows.returned}},
                                          .offsets = saved.rows.return_offsets,
                                          .received = received,
                                          .most = rows(context) / context.ep.part.size}});
  return back;
}

}  // namespace pipetrain
