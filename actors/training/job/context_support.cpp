#include "actors/training/job/context_support.hpp"

#include <fmt/format.h>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_context(const TrainJob& job, const std::string& why) {
  throw Error(ErrorKind::input, {"cp", fmt::format("{}", job.layout.cp)}, why);
}

bool isolates(const std::shared_ptr<const Dataset>& data) { return data && data->isolates_documents(); }

// What has been run on CPUs only.
void check_devices(const TrainJob& job) {
  if (job.devices.kind == DeviceKind::cpu) return;
  if (isolates(job.dataset) || isolates(job.evaluation))
    refuse_context(job, "documents that do not see each other are not built for GPUs with it yet; use pack documents, or cp 1");
  if (job.config.dropout.any()) refuse_context(job, "dropout is not built for GPUs with it yet; use dropout 0, or cp 1");
  if (job.layout.slices > 1) refuse_context(job, "slices are not built for GPUs with it yet; use slices 1, or cp 1");
}

}  // namespace

void check_context_parallel(const TrainJob& job) {
  const int cp = job.layout.cp;
  if (cp == 1) return;
  const std::int64_t sequence = job.dataset->sequence_length(), chunks = sequence_chunks(job);
  if (sequence % chunks != 0)
    refuse_context(
        job,
        fmt::format("sequences of {} tokens cannot be cut into {}2 x {} equal chunks; use a seq-len that is a multiple of {}",
                    sequence, job.layout.slices > 1 ? fmt::format("{} x ", job.layout.slices) : "", cp, chunks));
  check_devices(job);
}

}  // namespace pipetrain
