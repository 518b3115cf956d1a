#include "actors/generation/sequence_runs.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

void check_run(const SequenceRun& run, const RunLimits& limits) {
  const auto count = static_cast<std::int64_t>(run.ids.size());
  const bool fits = run.first >= 0 && run.first <= limits.positions - count && run.length <= limits.positions;
  if (count > longest_run || !fits || (run.length != 0 && run.length < run.first + count))
    WireReader::refuse("positions beyond the end of a sequence");
  if (run.adapter < 0 || run.adapter > limits.adapters) WireReader::refuse("an adapter that the job does not have");
  if (run.adapter < 0 || run.adapter > limits.adapters) WireReader::refuse("an adapter that the job does not have");
  const bool known =
      std::all_of(run.ids.begin(), run.ids.end(), [&](std::int32_t id) { return id >= 0 && id < limits.vocabulary; });
  if (!known) WireReader::refuse("an id outside the vocabulary");
}

}  // namespace

SequenceRuns sequence_runs(std::span<const std::byte> bytes, const RunLimits& limits) {
  SequenceRuns runs = read_message<SequenceRuns>(bytes);
  if (runs.size() != static_cast<std::size_t>(limits.sequences)) WireReader::refuse("another number of sequences");
  for (const SequenceRun& run : runs) check_run(run, limits);
  return runs;
}

}  // namespace pipetrain
