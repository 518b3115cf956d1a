#include "actors/training/places/gradient_pool.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

// The time for which a gradient needs its memory. It begins with the first addition to the gradient, and ends one block, or
// action, after its sum over the replicas can begin, so that the sum has time to travel. Ticks only give an order.
struct Life {
  std::size_t begin = 0, end = 0;
  bool meets(const Life& other) const { return begin < other.end && other.begin < end; }
};

// The actions in which the chunk's weight gradients are computed.
struct ChunkWork {
  std::size_t first = 0, last = 0;  // actions
  bool by_block = true;             // all in B, which runs block by block; W has no such order
};

ChunkWork work_of(int chunk, const std::vector<schedules::Action>& actions) {
  ChunkWork work;
  bool found = false;
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (actions[at].chunk != chunk || !gives_weight_grad(actions[at].kind)) continue;
    if (!std::exchange(found, true)) work.first = at;
    work.last = at;
    work.by_block = work.by_block && actions[at].kind == schedules::ActionKind::backward;
  }
  return work;
}

Life life_of(const ParameterLayout& layout, std::size_t block, const std::vector<schedules::Action>& actions) {
  const int chunk = layout.blocks[block].chunk;
  const ChunkWork work = work_of(chunk, actions);
  const std::size_t ticks = layout.blocks.size() + 1;  // of an action
  if (!work.by_block) return {work.first * ticks, (work.last + 1) * ticks + 1};
  std::size_t last = block;
  while (last + 1 < layout.blocks.size() && layout.blocks[last + 1].chunk == chunk) ++last;
  const std::size_t turn = last - block;  // B goes from the last block to the first
  return {work.first * ticks + turn, work.last * ticks + turn + 2};
}

struct Placed {
  std::size_t begin, end;
  Life life;
};

// Returns the lowest offset that no unit occupies at the same time.
std::size_t place(std::vector<Placed>& placed, std::size_t elements, const Life& life) {
  std::size_t begin = 0;
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  for (const Placed& other : placed) {
    if (!other.life.meets(life) || other.end <= begin) continue;
    if (begin + elements <= other.begin) break;
    begin = other.end;
  }
  placed.push_back({begin, begin + elements, life});
  return begin;
}

}  // namespace

GradientPool pool_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replicas,
                            const std::vector<schedules::Action>& actions) {
  // Only the gradients of products, all of which the step's first microbatch overwrites.
  std::vector<std::size_t> order;
  std::size_t all = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Region zeroed = layout.zeroed_grads[static_cast<std::size_t>(units[i].chunk)];
    if (units[i].grads < zeroed.end) continue;
    order.push_back(i);
    all += units[i].weights.size();
  }
  std::vector<Life> lives(units.size());
  for (const std::size_t i : order) lives[i] = life_of(layout, units[i].block, actions);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lives[a].begin < lives[b].begin; });
  GradientPool pool;
  pool.begins.resize(units.size());
  std::vector<Placed> placed;
  for (const std::size_t i : order) {
    pool.begins[i] = place(placed, units[i].weights.size(), lives[i]);
    pool.length = std::max(pool.length, *pool.begins[i] + units[i].weights.size());
  }
  if (pool.length + all / static_cast<std::size_t>(replicas) < all) return pool;  // all replicas decide alike
  return {std::vector<std::optional<std::size_t>>(units.size()), 0};
}

}  // namespace pipetrain
