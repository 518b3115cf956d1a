#include "actors/training/job/setting_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/training/job/batch_sizes.hpp"
#include "model/config/mode_names.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

using namespace setting_members;

namespace {

using Run = RunSettings;

constexpr std::int64_t most_pieces = 32767;

Choices schedule_choices() {
  Choices names;
  for (const auto& info : schedules::all_schedules()) names.emplace_back(info.name);
  return names;
}

std::string schedule_text(const Run& run) {
  return run.layout.plan ? checksum_text(schedules::to_text(*run.layout.plan)) : run.layout.schedule;
}

std::string order_text(const Run& run) {
  if (run.layout.replayed) return fmt::format("replay {:016x}", run.layout.replayed->content);
  return run.layout.order == schedules::Order::planned ? "planned" : "ready";
}

}  // namespace

SettingRows layout_rows() {
  return {
      {"pp", "N", "pipeline stages", integer<&Run::layout, &LayoutSettings::pp>(1, most_devices), compared, "{}; the plan's"},
      {"tp", "N", "devices that share each layer (tensor parallel)",
       integer<&Run::layout, &LayoutSettings::tp>(1, most_devices), compared},
      {"dp", "N", "replicas of the model (data parallel)", integer<&Run::batch, &BatchShape::dp>(1, most_devices), compared},
      {"cp", "N", "devices that share each sequence (context parallel)",
       integer<&Run::layout, &LayoutSettings::cp>(1, most_devices), compared | profiled},
      {"ep", "N", "replicas that divide the routed experts of each layer among them (expert parallel); divides `dp`",
       integer<&Run::layout, &LayoutSettings::ep>(1, most_devices), compared | profiled},
  };
}

SettingRows state_rows() {
  return {
      {"zero", "0|1|2|3",
       "state that the replicas divide: 1 the optimizer's states and master weights, 2 gradients too, 3 weights too: docs/memory.md",
       integer<&Run::zero, &Zero::stage>(0, most_zero_stages), compared | profiled},
      {"zero-prefetch", "N", "with `zero` 3 and `offload` parameters: blocks whose weights are brought ahead of the one in use",
       integer<&Run::zero, &Zero::prefetch>(0, 64), compared},
      {"compress-gradients", "", "sum gradients of matrices over replicas in few bits, with error feedback: docs/optimizers.md",
       choice<&Run::compression, &Compression::gradients>({"none", "int8", "1bit"}), compared | profiled, "",
       SettingPhrase(", gradients compressed to ")},
      {"compress-hosts", "N",
       "with `compress-gradients`: sum gradients in fp32 within each of N hosts, and in few bits between them; each has as many of the replicas, in their order",
       integer<&Run::compression, &Compression::hosts>(2, most_devices), compared | profiled, "all travel in few bits",
       SettingPhrase(" between ", "host")},
      {"compress-weights", "", "gather matrices that replicas divide (`zero`) in few bits: docs/optimizers.md",
       choice<&Run::compression, &Compression::weights>({"none", "int8"}), compared | profiled, "",
       SettingPhrase(", weights gathered in ")},
      {"offload", "none|optimizer|parameters|gradients|activations",
       "data kept outside of the devices, one or several with commas between: the optimizer's states, and master weights that operations do not read; the weights that they read; gradients of blocks' matrices; activations of microbatches that wait for their backward. The same bits: docs/memory.md",
       special(AnyText{}, [](const Run& run) { return to_string(run.offload); }), compared},
      {"optimizer-offload-fraction", "F",
       "with `offload` optimizer: the share of the optimizer's states, and of those master weights, to offload; the rest stays on the devices",
       number<&Run::offload, &Offload::optimizer_fraction>(NumberRange::above_to(0, 1)), compared},
      {"activation-offload-fraction", "F",
       "with `offload` activations: the largest share of each stage's microbatches to offload, those that wait longest first",
       number<&Run::offload, &Offload::activation_fraction>(NumberRange::above_to(0, 1)), compared},
      {"offload-to", "DIR", "a folder on a disk for what is offloaded",
       special(AnyText{}, [](const Run& run) { return run.offload.to_disk() ? "a disk" : ""; }), compared,
       "the memory of the GPUs' host"},
  };
}

SettingRows schedule_rows() {
  return {
      {"sequence-parallel", "on|off", "split the norms' sequences over the tensor-parallel devices",
       on_off<&Run::layout, &LayoutSettings::sequence_parallel>(), compared, "on where tp > 1"},
      {"schedule", "NAME|FILE",
       fmt::format("order of forwards and backwards: {}; or a plan: .txt ours, .csv PyTorch's",
                   fmt::join(schedule_choices(), ", ")),
       special(AnyText{}, schedule_text), compared},
      {"chunks", "V", "model chunks on each stage, for schedules that have several",
       special(IntegerRange{1, 1024}, [](const Run& run) { return text_of(run.layout.chunks); }), compared,
       "the schedule's or plan's own"},
      {"cut", "N,N,...",
       "attention and MLP blocks of each virtual stage, in the model's order: two blocks a layer, pp x chunks numbers. The embedding is with the first, the head with the last: docs/training.md",
       special(AnyText{}, [](const Run& run) { return cut_text(run.layout.cut); }), compared,
       "by cost, embedding and head counted"},
      {"slices", "N", "pieces of each sequence that pass the pipeline one after the other; 1f1b and interleaved",
       integer<&Run::layout, &LayoutSettings::slices>(1, most_pieces), compared, "{}; the plan's"},
      {"post-validation", "on|off",
       "begin the coming step before the global gradient norm is known, and begin it again after clipping or a skipped step; in the planned order, without `zero` and `offload`",
       on_off<&Run::post_validation>(), compared},
      {"order", "planned|ready|replay:FILE",
       "keep the plan's order, run what is ready first, or keep the order that the run of a `record` had in each step",
       special(Choices{"planned", "ready"}, order_text), compared},
  };
}

SettingRows batch_rows() {
  return {
      {"microbatch", "N", "sequences in one microbatch", integer<&Run::batch, &BatchShape::microbatch>(1, largest_batch_factor),
       compared},
      {"microbatches", "N", "microbatches of one replica in one step",
       integer<&Run::batch, &BatchShape::microbatches>(1, largest_batch_factor), compared, "4 x pp; the plan's"},
      {"global-batch", "N", "sequences in one step; given some of the three, the others follow",
       special(IntegerRange{1, largest_batch_factor * largest_batch_factor}, unset), used_alone,
       "microbatch x microbatches x dp"},
      {"steps", "N", "stop after N steps", integer<&Run::length, &LengthSettings::steps>(), compared},
      {"epochs", "N", "stop after N passes over the data; with `steps` the first limit counts",
       integer<&Run::length, &LengthSettings::epochs>(), compared, "1; on the built-in text until it has learned"},
  };
}

SettingRows device_rows() {
  return {
      {"device", "", "auto takes GPUs if pp x tp x dp are there, else the CPU",
       special(Choices{"auto", "cpu", "cuda"}, [](const Run& run) { return name_of(run.devices.kind); }), compared, "auto"},
      {"devices", "LIST", "GPUs to use, in rank order, e.g. 0,1,2,3", special(AnyText{}, unset), used_alone, "the first ones"},
      {"threads", "N", "compute threads of each CPU device", integer<&Run::devices, &DeviceSettings::threads>(1, 1024),
       profiled, "cores / devices, at least 1"},
  };
}

}  // namespace pipetrain
