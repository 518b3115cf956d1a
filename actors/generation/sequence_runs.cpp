#include "actors/generation/sequence_runs.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

SequenceRun read_run(WireReader& in, const RunLimits& limits) {
  SequenceRun run;
  run.first = in.number<std::int64_t>();
  run.ids.resize(in.count(sizeof(std::int32_t)));
  for (std::int32_t& id : run.ids) id = in.number<std::int32_t>();
  run.length = in.number<std::int64_t>();
  run.adapter = in.number<std::int32_t>();
  const auto count = static_cast<std::int64_t>(run.ids.size());
  const bool fits = run.first >= 0 && run.first <= limits.positions - count && run.length <= limits.positions;
  if (count > longest_run || !fits || (run.length != 0 && run.length < run.first + count))
    WireReader::refuse("positions beyond the end of a sequence");
  if (run.adapter < 0 || run.adapter > limits.adapters) WireReader::refuse("an adapter that the job does not have");
  const bool known =
      std::all_of(run.ids.begin(), run.ids.end(), [&](std::int32_t id) { return id >= 0 && id < limits.vocabulary; });
  if (!known) WireReader::refuse("an id outside the vocabulary");
  return run;
}

}  // namespace

Bytes to_bytes(const SequenceRuns& runs) {
  WireWriter out;
  out.list(runs, [&](const SequenceRun& run) {
    out.number(run.first);
    out.list(run.ids, [&](std::int32_t id) { out.number(id); });
    out.number(run.length);
    out.number(std::int32_t{run.adapter});
  });
  return std::move(out).data();
}

SequenceRuns sequence_runs(std::span<const std::byte> bytes, const RunLimits& limits) {
  WireReader in(bytes);
  SequenceRuns runs(in.count(2 * sizeof(std::int64_t) + 2 * sizeof(std::uint32_t)));
  if (runs.size() != static_cast<std::size_t>(limits.sequences)) WireReader::refuse("another number of sequences");
  for (SequenceRun& run : runs) run = read_run(in, limits);
  in.end();
  return runs;
}

}  // namespace pipetrain
