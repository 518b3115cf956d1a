#include "bench/gpu/torch_peer.hpp"

#include <fmt/format.h>

#include <sstream>

#include "core/error.hpp"
#include "files/json.hpp"
#include "model/config/config.hpp"

namespace pipetrain::bench {
namespace {

bool is_v_shaped(const PeerVariant& variant) { return variant.schedule == "ZBVZeroBubble" || variant.schedule == "DualPipeV"; }

}  // namespace

std::vector<std::string> peer_arguments(const Row& row, const PeerVariant& variant, const PeerCommand& command) {
  std::vector<std::string> arguments;
  std::istringstream words(command.torchrun);
  for (std::string word; words >> word;) arguments.push_back(word);
  const auto add = [&](const char* option, const auto& value) {
    arguments.emplace_back(option);
    arguments.push_back(fmt::format("{}", value));
  };
  add("--nproc_per_node", row.devices());
  add("--master_port", command.port);
  arguments.push_back(command.script);
  add("--model", row.model);
  if (row.layers > 0) add("--layers", row.layers);
  add("--pp", row.pp);
  add("--tp", row.tp);
  add("--dp", row.dp);
  if (row.ep > 1) add("--ep", row.ep);
  add("--seq", row.sequence);
  add("--mbs", row.microbatch);
  add("--gas", row.microbatches);
  if (row.pp > 1) {
    add("--schedule", variant.schedule);
    add("--vpp", variant.chunks);
  }
  if (variant.async_tp) add("--async_tp", 1);
  if (row.fp8) add("--fp8", 1);
  add("--warmup", command.warmup);
  add("--steps", command.steps);
  return arguments;
}

RunFigures read_peer(const std::string& output, const Row& row, const PeerVariant& variant) {
  const auto at = output.find("RESULT {");
  if (at == std::string::npos) throw Error(ErrorKind::input, "the peer printed no line that begins with RESULT");
  const Json line = parse_json(output.substr(at + 7, output.find('\n', at) - at - 7), {"the peer's result", false});
  RunFigures figures;
  figures.variant = row.pp > 1 || variant.async_tp ? to_string(variant) : "";
  figures.seconds = {line.at("sec_step").as_double(), line.at("spread")[0].as_double(), line.at("spread")[1].as_double()};
  figures.tokens_per_second = line.at("tok_s_gpu").as_double();
  figures.tflops = line.at("tflops_gpu").as_double();
  for (const Json& gib : line.at("mem_gib")) figures.memory.push_back(gib.as_double() * (1 << 30));
  figures.memory_without_state = most_without_state(figures.memory, peer_state_bytes(row, variant));
  return figures;
}

std::vector<double> peer_state_bytes(const Row& row, const PeerVariant& variant) {
  const ModelConfig config = preset_config(row.model);
  const double layers = row.layers > 0 ? row.layers : static_cast<double>(config.layers);
  const double hidden = static_cast<double>(config.hidden), vocabulary = static_cast<double>(config.vocabulary);
  const double heads = static_cast<double>((2 * config.heads + 2 * config.kv_heads) * config.head_dim);
  const auto experts = static_cast<double>(config.experts.count);
  const double columns =
      experts > 0 ? experts * static_cast<double>(config.experts.intermediate) : static_cast<double>(config.intermediate);
  const double layer = hidden * (heads + 3 * columns / row.ep + experts);
  // The peer of models with experts divides these alone.
  const double bytes_each = row.dp == 1 || experts > 0 ? 8 : 12.0 / row.dp + 6;
  std::vector<double> bytes;
  for (int stage = 0; stage < row.pp; ++stage) {
    const bool first = stage == 0, last = is_v_shaped(variant) ? stage == 0 : stage == row.pp - 1;
    const int tables = config.tied_embeddings && row.pp == 1 ? 1 : first + last;
    const double matrices = layers / row.pp * layer + tables * vocabulary * hidden;
    const double norms = (2 * layers / row.pp + last) * hidden;
    bytes.insert(bytes.end(), static_cast<std::size_t>(row.dp * row.tp), bytes_each * (matrices / row.tp + norms));
  }
  return bytes;
}

}  // namespace pipetrain::bench
