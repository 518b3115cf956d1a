#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "actors/training/checkpoint/checkpoint_state.hpp"
#include "actors/training/records/profile.hpp"
#include "apps/options/option_layers.hpp"
#include "apps/train/metrics_file.hpp"
#include "bench/fuzz/target.hpp"
#include "core/checksum.hpp"
#include "records/replayed_record.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/validate.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

Profile some_profile() {
  Profile profile;
  profile.model = "tiny";
  profile.config = profile_config(preset_config("tiny"));
  profile.pp = profile.microbatches = 2;
  profile.chunks = 1;
  profile.schedule = "1f1b";
  profile.has_settings = true;
  profile.settings.layout.cp = 2;
  profile.sequence = 8;
  profile.steps = 3;
  profile.step_seconds = 0.5;
  profile.p2p = {1e-5};
  ChunkProfile chunk;
  chunk.forward = 0.1;
  chunk.backward = 0.2;
  chunk.held_bytes = 4096;
  profile.stages = {{{chunk}, 1e-4, 2e-4}, {{chunk}, 1e-4, 2e-4}};
  return profile;
}

Target profile_target(const fs::path& folder) {
  const fs::path file = folder / "profile.json";
  Target target{"profile",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  const Profile profile = read_profile(file);
                  profile.conditions();
                  std::ostringstream text;
                  write_profile(text, profile);
                },
                nullptr};
  std::ostringstream text;
  write_profile(text, some_profile());
  target.seeds = {text.str()};
  target.dictionary = {"\"chunks\"",  "\"p2p\"",          "\"v_shape\"",          "\"stages\"",
                       "\"forward\"", "\"microbatches\"", "\"pipetrain profile\""};
  return target;
}

Target measured_target(const fs::path& folder) {
  const fs::path file = folder / "devices.json";
  Target target{"measured",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  std::ostringstream text;
                  write_measured_devices(text, read_measured_devices(file));
                },
                nullptr};
  MeasuredDevices devices;
  devices.memory_bytes = 1e10, devices.fp32_flops = 1e11, devices.memory_rate = 1e10, devices.block_overhead = 1e-6;
  std::ostringstream one, two;
  write_measured_devices(one, devices);
  devices.kind = DeviceKind::cuda, devices.count = 2, devices.bf16_flops = 1e14, devices.link_rate = 1e11,
  devices.latency = 1e-6;
  write_measured_devices(two, devices);
  devices.hosts = {0, 0, 1}, devices.links = {{1e9, 1e-5}, {1e8, 1e-4}, {1e8, 2e-4}};
  std::ostringstream three;
  write_measured_devices(three, devices);
  target.seeds = {one.str(), two.str(), three.str()};
  target.dictionary = {"\"hosts\"", "\"links\"", "\"cpu\"", "\"cuda\"", "\"pipetrain devices\"", "\"latency\"", "\"threads\""};
  return target;
}

Target metrics_target(const fs::path& folder) {
  const fs::path file = folder / "metrics.jsonl";
  Target target{"metrics",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  MetricsFile metrics(file, 2);
                  metrics.write(StepMetrics{});
                },
                nullptr};
  std::string lines;
  for (int step = 1; step <= 4; ++step) {
    StepMetrics metrics;
    metrics.step = step, metrics.loss = 2.5, metrics.memory_bytes = {1, std::nullopt};
    lines += to_json_line(metrics) + "\n";
  }
  target.seeds = {lines, lines + "{\"step\":5,\"lo"};
  target.dictionary = {"{\"step\":", "{\"step\":2,\"eval_loss\":1}\n", "{\"step\":99}\n"};
  return target;
}

// Gives a state the checksum that it would have been saved with; sometimes a wrong one.
std::string signed_state(Random& random, std::string text) {
  constexpr std::string_view key = R"("checksum": ")";
  constexpr std::size_t digits = 16;
  const std::size_t place = text.find(key) + key.size();
  if (place < key.size() || place + digits > text.size() || random.one_in(16)) return text;
  text.replace(place, digits, digits, '0');
  return text.replace(place, digits, fmt::format("{:016x}", checksum(text.data(), text.size())));
}

Target state_target(const fs::path& folder) {
  const fs::path file = folder / "state.json", written = folder / "written.json";
  Target target{"state",
                {},
                {},
                [file](std::string_view input) {
                  put_file(file, input);
                  read_manifest(file);
                },
                signed_state};
  CheckpointManifest manifest;
  manifest.state.step = 10, manifest.state.applied_steps = 9, manifest.state.first_loss = 5.5, manifest.state.last_loss = 4.25;
  manifest.state.global_batch = 8, manifest.state.sequence = 128, manifest.state.samples = 1000;
  manifest.state.seed = manifest.state.data = ~std::uint64_t{0};
  manifest.checksums.emplace();
  manifest.checksums->small_files = {{"config.json", 6}, {"tokenizer.json", 5}};
  manifest.checksums->tensors["rank-00000.safetensors"] = {
      1024, 7, {{"weights/model.norm.weight", 8}, {"weights/lm_head.weight[0:64]", 9}}};
  write_manifest(written, manifest);
  std::ifstream stream(written);
  target.seeds = {
      {std::istreambuf_iterator<char>(stream), {}},
      R"({"format": 2, "step": 10, "applied_steps": 10, "first_loss": 5.5, "global_batch": 8, "sequence": 128, "seed": 0, "shuffle": true, "samples": 1000, "data": 1})"};
  target.dictionary = {"\"checksum\"", "\"checksums\"",   "\"format\"",           "\"files\"",
                       "\"tensors\"",  "\"config.json\"", "\"0123456789abcdef\"", "\"bytes\""};
  return target;
}

// Reads a record as `pipetrain replay` does.
void replay_record(const fs::path& file) {
  ReplayedRecord record(file);
  try {
    while (record.next()) record.replay().play();
  } catch (const schedules::LogError& error) {
    record.reader().fail(error.what());
  } catch (const schedules::ReplayError& error) {
    record.reader().fail(error.what());
  }
}

// Gives every part the checksum of its present contents.
std::string with_record_checksums(std::string record) {
  constexpr std::size_t before = 20, head = 13;
  for (std::size_t at = before; at + head <= record.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, record.data() + at + 1, sizeof size);
    if (size > record.size() - at - head) size = static_cast<std::uint32_t>(record.size() - at - head);
    const std::uint64_t sum = checksum(record.data() + at + head, size);
    std::memcpy(record.data() + at + 1, &size, sizeof size);
    std::memcpy(record.data() + at + 5, &sum, sizeof sum);
    at += head + size;
  }
  return record;
}

// A step of one stage, which receives everything from its feeder.
std::string some_record() {
  using namespace schedules;
  FlightRecordHead head{"run", {}};
  head.run.plan = with_end_of_step(build_schedule("1f1b", {1, 1, 2}), {});
  head.run.needs = validate(head.run.plan);
  StageLogWriter writer(1, 2);
  StageLogWriter::Time now(std::chrono::hours(1));
  const auto later = [&] { return now += std::chrono::microseconds(5); };
  std::vector<LoggedAction> actions;
  writer.begin(StepKind::training, now);
  for (const auto kind : {InputKind::activation, InputKind::target})
    for (const int microbatch : {0, 1}) writer.input(kind, 0, microbatch, later());
  for (const Action& action : head.run.plan.stages.front()) {
    if (action.kind == ActionKind::optimizer) writer.verdict(true, later());
    writer.launched(action);
    writer.enqueued(action, later());
    writer.completed(action, later());
    actions.push_back({action, 3'600'000'000'000, 3'600'000'001'000});
  }
  const RecordedStep step{1, StepKind::training, true, {writer.take(actions)}};
  std::string record = flight_record_head(head) + flight_record_step(step);
  head.run.membership = 2, head.run.process_of = {1};
  return record + flight_record_membership(head) + flight_record_step(step) + flight_record_end();
}

Target record_target(const fs::path& folder) {
  const fs::path file = folder / "run.rec";
  return {"record",
          {some_record()},
          {"1f1b", "stage 0:", "F0", std::string("\x7f\x7f", 2), std::string(4, '\0')},
          [file](std::string_view input) {
            put_file(file, input);
            replay_record(file);
          },
          [](Random&, std::string mutated) { return with_record_checksums(std::move(mutated)); }};
}

const std::vector<std::string> option_words = {"pp",
                                               "\"pp\"",
                                               "micro_batch_size",
                                               "\"lr\"",
                                               "data",
                                               "\"data\"",
                                               "precision",
                                               "\"bf16\"",
                                               "fp16",
                                               "zero_optimization",
                                               "\"auto\"",
                                               "[1, 2]",
                                               "{\"enabled\": false}",
                                               "{\"enabled\": true}",
                                               "{\"stage\": 0, \"offload_optimizer\": {\"device\": \"none\"}}",
                                               "config",
                                               "1979-05-27T07:32:00Z"};

Target options_target(const std::string& name, const fs::path& file) {
  return {name,
          {},
          option_words,
          [file](std::string_view input) {
            put_file(file, input);
            read_config_file(train_option_table(), file.string());
          },
          nullptr};
}

std::vector<Target> options_targets(const fs::path& folder) {
  Target toml = options_target("toml", folder / "run.toml"), json = options_target("json", folder / "run.json"),
         arguments = options_target("args", folder / "run.args");
  toml.seeds = {
      "# a run\npp = 2\ntp = 1\nlr = 3e-4\nmodel = \"tiny\"\ndata = [\"a.txt\", 'b.txt:2']\nshuffle = true\nsteps = "
      "1_000\nsave = \"\"\"a\\u00e9\"\"\"\n",
      "microbatches = 4\n[bf16]\nenabled = false\n[zero_optimization]\nstage = 0\noffload_optimizer = {device = \"none\", x.y "
      "= [1, {z = 2}]}\n"};
  json.seeds = {
      "{\n  \"pp\": 2, // stages\n  \"lr\": 3e-4,\n  \"data\": [\"a.txt\", \"b.txt:2\"],\n  \"shuffle\": true, \"clip_grad\": "
      "\"auto\"\n}\n",
      "{\"bf16\": {\"enabled\": false}, \"zero_optimization\": {\"stage\": 0, \"offload_optimizer\": {\"device\": \"none\"}}, "
      "\"steps\": null}"};
  arguments.seeds = {
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 "
      "--seq-length 128 --lr 3e-4 --train-iters 100 --bf16 --use-flash-attn\n"};
  toml.seeds.push_back(
      "[parallelism]\npipeline_parallel_degree = 2\n[training]\nseq_len = 128\nsteps = 10\n[optimizer]\nname = \"AdamW\"\nlr = "
      "3e-4\n[checkpoint]\nfolder = \"run\"\ninterval = 5\n");
  return {toml, json, arguments};
}

}  // namespace

std::vector<Target> record_targets(const fs::path& folder) {
  std::vector<Target> targets = {profile_target(folder), measured_target(folder), metrics_target(folder), state_target(folder),
                                 record_target(folder)};
  for (const Target& target : options_targets(folder)) targets.push_back(target);
  return targets;
}

}  // namespace pipetrain::fuzz
