// Each row of the table of what does not work together refuses a command, and nothing else is refused for it.
#include "actors/training/job/combinations.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "apps/options/train_options.hpp"
#include "apps/pipetrain_program.hpp"
#include "apps/simulate/simulate_options.hpp"
#include "apps/tune/tune_options.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "paths.hpp"

using namespace pipetrain;

namespace {

// Files that the commands below name.
struct CombinationFiles {
  TempFolder folder;
  std::string labels = write("labels.jsonl", "{\"text\": \"a b c\", \"label\": 0}\n{\"text\": \"d e f\", \"label\": 1}\n");
  std::string model = test_data() + "/golden/llama3_tiny";
  std::string pairs = write("pairs.jsonl", rows_of_pairs());
  std::string custom =
      write("custom.txt",
            "schedule: mine\nplacement: looping\nchunks: 1\nmicrobatches: 1\ncustom X0: prefetch\nstage 0: X0 F0 B0 N O\n");
  std::string costs = path("costs.json"), recorded = path("run.rec");

  CombinationFiles() {
    const std::string small = "--device cpu --pp 2 --layers 2 --seq-len 8 --steps 1 ";
    REQUIRE(run(small + "--dp 2 --zero 3 --profile " + costs).status == 0);
    REQUIRE(run(small + "--record " + recorded).status == 0);
  }
  static std::string rows_of_pairs() {
    std::string rows;
    for (int row = 0; row < 8; ++row) rows += "{\"prompt\": \"a\", \"chosen\": \"b c\", \"rejected\": \"d\"}\n";
    return rows;
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string write(const std::string& name, const std::string& text) const { return folder.write(name, text).string(); }
};

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

struct Command {
  enum class Kind { train, train_on_gpus, train_in_two_processes, simulate, tune } kind;
  std::string options;
};

// Opens the run as far as a dry run does. A GPU that is not here is an error only after what is refused.
void dry_run(const Command& command) {
  const bool gpus = command.kind == Command::Kind::train_on_gpus;
  const bool two = command.kind == Command::Kind::train_in_two_processes;
  const auto options = parse_train_options(words_of("--layers 4 --steps 1 " + command.options), {}, {gpus ? 8 : 0, 8});
  std::vector<std::string> notes;
  const TrainJob job = make_train_job(options.run, notes);
  estimate_job(job, two ? std::optional(PlannedProcesses{2, TransportKind::ucx}) : std::nullopt);
}

// The error line, or "none".
std::string refusal_of(const Command& command) {
  try {
    if (command.kind == Command::Kind::simulate) {
      parse_simulate_options(words_of(command.options), {});
    } else if (command.kind == Command::Kind::tune) {
      parse_tune_options(words_of("--devices 4 --device cpu " + command.options), {});
    } else {
      dry_run(command);
    }
  } catch (const Error& error) {
    return error.kind() == ErrorKind::input ? error_line(error) : "none";
  }
  return "none";
}

struct RefusedCommand {
  Feature feature;
  std::optional<Feature> other;
  Command command;
};

std::vector<RefusedCommand> preference_commands(const CombinationFiles& files) {
  using enum Feature;
  using enum Command::Kind;
  const std::string preferred = " --loss orpo --data " + files.pairs;
  return {
      {preferences, classification, {train, "--num-labels 2" + preferred}},
      {preferences, dropout, {train, "--model gpt2 --dropout 0.1" + preferred}},
      {preferences, experts, {train, "--model qwen3-30b-a3b" + preferred}},
      {preferences, adapter_dropout, {train, "--lora-rank 4 --lora-dropout 0.1" + preferred}},
      {preferences, post_validation, {train, "--post-validation on" + preferred}},
  };
}

std::vector<RefusedCommand> expert_commands(const CombinationFiles& files) {
  using enum Feature;
  using enum Command::Kind;
  const std::string mtp = "--model deepseek-v3 --seq-len 8 --mtp-loss 0.3";
  return {
      {experts, fp8_blockwise, {train_on_gpus, "--model mixtral-8x7b --precision fp8 --fp8-recipe blockwise"}},
      {latent_attention, fp8, {train_on_gpus, "--model deepseek-v2-lite --seq-len 32 --precision fp8"}},
      {isolated_experts, {}, {train_on_gpus, "--model qwen3-30b-a3b --seq-len 8 --pack isolated"}},
      {isolated_experts, slices, {train, "--model qwen3-30b-a3b --seq-len 8 --pack isolated --slices 2"}},
      {isolated_experts, expert_capacity, {train, "--model qwen3-30b-a3b --seq-len 8 --pack isolated --moe-capacity 1.5"}},
      {expert_adapters, adapter_dropout, {train, "--model qwen3-30b-a3b --seq-len 8 --lora-rank 2 --lora-dropout 0.1"}},
      {further_prediction, {}, {train_on_gpus, mtp}},
      {further_prediction, classification, {train, mtp + " --num-labels 2 --data " + files.labels}},
      {further_prediction, preferences, {train, mtp + " --loss orpo --data " + files.pairs}},
      {further_prediction, isolated_documents, {train, mtp + " --pack isolated"}},
      {sigmoid_router, router_z_loss, {train, "--model deepseek-v3 --seq-len 8 --moe-z-loss 0.001"}},
      {sigmoid_router, half_precision, {train, "--model deepseek-v3 --seq-len 8 --precision bf16"}},
      {expert_capacity, slices, {train, "--model qwen3-30b-a3b --seq-len 8 --moe-capacity 1.5 --slices 2"}},
      {expert_capacity, context_parallel, {train, "--model qwen3-30b-a3b --seq-len 8 --moe-capacity 1.5 --cp 2"}},
      {layer_balance, slices, {train, "--model qwen3-30b-a3b --seq-len 8 --moe-aux-scope layer --slices 2"}},
      {layer_balance, context_parallel, {train, "--model qwen3-30b-a3b --seq-len 8 --moe-aux-scope layer --cp 2"}},
  };
}

std::vector<RefusedCommand> compression_commands() {
  using enum Feature;
  using enum Command::Kind;
  return {
      {compressed_gradients, one_replica, {train, "--compress-gradients int8"}},
      {compressed_gradients, zero_2, {train, "--dp 2 --zero 2 --compress-gradients int8"}},
      {compressed_gradients, offload, {train, "--dp 2 --offload optimizer --offload-to /tmp --compress-gradients int8"}},
      {compressed_gradients, expert_parallel, {train, "--dp 2 --ep 2 --compress-gradients int8"}},
      {compressed_gradients, scaled_loss, {train, "--dp 2 --precision fp16 --compress-gradients int8"}},
      {one_bit_gradients, zero, {train, "--dp 2 --zero 1 --compress-gradients 1bit"}},
      {compression_hosts, zero, {train, "--dp 4 --zero 1 --compress-gradients int8 --compress-hosts 2"}},
      {one_bit_gradients, other_optimizer, {train, "--dp 2 --optimizer lion --compress-gradients 1bit"}},
      {one_bit_gradients,
       post_validation,
       {train, "--pp 2 --dp 2 --schedule zb-h1 --post-validation on --compress-gradients 1bit"}},
      {compressed_weights, whole_states, {train, "--dp 2 --compress-weights int8"}},
      {compressed_weights, stepped_in_place, {train, "--dp 2 --zero 1 --compress-weights int8"}},
      {compressed_weights, offload, {train, "--dp 2 --zero 3 --offload optimizer --offload-to /tmp --compress-weights int8"}},
      {compressed_gradients, elastic, {train_in_two_processes, "--dp 2 --elastic takeover --compress-gradients int8"}},
  };
}

std::vector<RefusedCommand> training_commands(const CombinationFiles& files) {
  using enum Feature;
  using enum Command::Kind;
  const std::string disk = " --offload-to " + files.folder.path().string(), braided = " --schedule braided-v --microbatches 4";
  return {
      {fp8, {}, {train, "--precision fp8"}},
      {host_offload, {}, {train, "--offload optimizer"}},
      {zero, one_replica, {train, "--zero 1"}},
      {ready_order, no_ready_rule, {train, "--order ready --schedule v-half"}},
      {ready_order, slices, {train, "--order ready --slices 2"}},
      {ready_order, zero_3, {train, "--order ready --dp 2 --zero 3"}},
      {ready_order, offload_parameters, {train, "--order ready --offload parameters" + disk}},
      {ready_order, offload_activations, {train, "--order ready --offload activations" + disk}},
      {ready_order, divided_stages, {train_in_two_processes, "--order ready --tp 2"}},
      {record, replayed_order, {train, "--record out.rec --order replay:" + files.recorded}},
      {slices, whole_microbatches, {train, "--slices 2 --schedule zb-h1"}},
      {slices, fp8, {train_on_gpus, "--slices 2 --precision fp8"}},
      {slices, classification, {train, "--slices 2 --num-labels 2 --data " + files.labels}},
      {slices, offload_activations, {train, "--slices 2 --offload activations" + disk}},
      {profile, slices, {train, "--slices 2 --profile costs.json"}},
      {loss_chunks, classification, {train, "--loss-chunks 2 --num-labels 2 --data " + files.labels}},
      {quantised_base, fp8, {train_on_gpus, "--lora-rank 4 --base-precision fp8 --precision fp8"}},
      {context_parallel, isolated_documents, {train_on_gpus, "--cp 2 --pack isolated"}},
      {context_parallel, dropout, {train_on_gpus, "--cp 2 --model gpt2 --dropout 0.1"}},
      {context_parallel, slices, {train_on_gpus, "--cp 2 --slices 2"}},
      {braids, offload_activations, {train, "--offload activations" + disk + braided}},
      {exchanging_braids, zero_3, {train, "--tp 2 --dp 2 --zero 3" + braided}},
      {exchanging_braids, offload_parameters, {train, "--tp 2 --offload parameters" + disk + braided}},
      {exchanging_braids, context_parallel, {train_on_gpus, "--tp 2 --cp 2" + braided}},
      {profile, exchanging_braids, {train, "--tp 2 --profile costs.json" + braided}},
      {post_validation, ready_order, {train, "--post-validation on --order ready"}},
      {post_validation, expert_biases, {train, "--post-validation on --model qwen3-30b-a3b --seq-len 8 --moe-bias-rate 0.001"}},
      {post_validation, replayed_order, {train, "--post-validation on --order replay:" + files.recorded}},
      {post_validation, record, {train, "--post-validation on --record out.rec"}},
      {elastic, offload, {train_on_gpus, "--dp 2 --offload optimizer --elastic takeover"}},
      {post_validation, slices, {train, "--post-validation on --slices 2"}},
      {post_validation, zero, {train, "--post-validation on --dp 2 --zero 1"}},
      {post_validation, offload, {train, "--post-validation on --offload optimizer" + disk}},
      {post_validation, fp8, {train_on_gpus, "--post-validation on --precision fp8"}},
      {post_validation, divided_stages, {train_in_two_processes, "--post-validation on --tp 2"}},
  };
}

std::vector<RefusedCommand> optimizer_and_attention_commands(const CombinationFiles& files) {
  using enum Feature;
  using enum Command::Kind;
  const std::string disk = " --offload-to " + files.folder.path().string();
  return {
      {chosen_offload, slices, {train, "--offload auto --slices 2" + disk}},
      {offload_optimizer, whole_matrices, {train, "--optimizer muon --offload optimizer" + disk}},
      {offload_parameters, whole_matrices, {train, "--optimizer adafactor --offload parameters" + disk}},
      {offload_optimizer, eight_bit_moments, {train, "--optimizer adamw-8bit --offload optimizer" + disk}},
      {offload_parameters, eight_bit_moments, {train, "--optimizer adamw-8bit --offload parameters" + disk}},
      {singular_vectors, {}, {train_on_gpus, "--optimizer galore"}},
  };
}

std::vector<RefusedCommand> searching_commands(const CombinationFiles& files) {
  using enum Feature;
  using enum Command::Kind;
  return {
      {fp8, {}, {tune, "--precision fp8"}},
      {host_offload, {}, {tune, "--offload optimizer"}},
      {post_validation, zero, {tune, "--post-validation on --zero 1"}},
      {post_validation, several_hosts, {tune, "--post-validation on --hosts 2"}},
      {post_validation, cut_search, {tune, "--post-validation on --cut search"}},
      {post_validation, solver_time, {tune, "--post-validation on --solver-seconds 1 --plans " + files.path("plans")}},
      {post_validation, zero_times, {simulate, "--post-validation on --gather-weights 1"}},
      {post_validation, zero_times, {simulate, "--post-validation on --publish-weights 1"}},
      {post_validation, jitter, {simulate, "--post-validation on --jitter 0.1"}},
      {post_validation, custom_actions, {simulate, "--post-validation on --schedule " + files.custom}},
      {post_validation, zero, {simulate, "--post-validation on --costs " + files.costs}},
      {post_validation, offload, {simulate, "--post-validation on --pp 8 --activation-offload-fraction 1"}},
      {ready_order, no_ready_rule, {simulate, "--order ready --schedule v-min"}},
      {ready_order, zero_3, {simulate, "--order ready --costs " + files.costs}},
      {ready_order, offload_activations, {simulate, "--order ready --pp 8 --activation-offload-fraction 1"}},
      {slices, whole_microbatches, {simulate, "--slices 2 --schedule zb-v"}},
      {slices, offload_activations, {simulate, "--slices 2 --activation-offload-fraction 1"}},
      {profile, slices, {simulate, "--slices 2 --costs " + files.costs}},
      {braids, offload_activations, {simulate, "--schedule braided-v --activation-offload-fraction 1"}},
      {solver_bound, offload_activations, {simulate, "--schedule solver --activation-offload-fraction 1"}},
      {pytorch_csv, slices, {simulate, "--slices 2 --plan-out out.csv"}},
      {pytorch_csv, offload_activations, {simulate, "--pp 8 --activation-offload-fraction 1 --plan-out out.csv"}},
      {pytorch_csv, custom_actions, {simulate, "--plan-out out.csv --schedule " + files.custom}},
  };
}

bool is_row(const Combination& row, const RefusedCommand& refused) {
  return row.feature == refused.feature && row.other == refused.other;
}

}  // namespace

TEST_CASE("each row of what does not work together refuses a command with its sentence") {
  const CombinationFiles files;
  std::vector<RefusedCommand> commands = training_commands(files);
  for (auto more : {searching_commands(files), optimizer_and_attention_commands(files), preference_commands(files),
                    expert_commands(files), compression_commands()})
    for (RefusedCommand& one : more) commands.push_back(std::move(one));
  for (const RefusedCommand& one : commands) {
    const auto rows = refused_combinations();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Combination& row) { return is_row(row, one); });
    INFO(one.command.options);
    REQUIRE(row != rows.end());
    CHECK_THAT(refusal_of(one.command), Catch::Matchers::EndsWith(std::string(": ") + row->why));
  }
  for (const Combination& row : refused_combinations()) {
    INFO(name_of(row.feature) << ", " << row.why);
    CHECK(std::any_of(commands.begin(), commands.end(), [&](const RefusedCommand& one) { return is_row(row, one); }));
  }
}

TEST_CASE("no two rows of what does not work together say the same, and each gives a way out") {
  std::set<std::set<Feature>> pairs;
  for (const Combination& row : refused_combinations()) {
    INFO(name_of(row.feature) << ", " << row.why);
    CHECK(pairs.insert({row.feature, row.other.value_or(row.feature)}).second);
    CHECK_THAT(row.why, Catch::Matchers::Contains("; "));
    UsedFeatures used{row.device};
    used.add(row.feature, "setting", "value");
    if (row.other) used.add(*row.other, "other", "value");
    CHECK(find_refused(used) == &row);
    used.device = row.device == DeviceKind::cuda ? DeviceKind::cpu : DeviceKind::cuda;
    CHECK((find_refused(used) == &row) == !row.device);
  }
}

TEST_CASE("a row of what does not work together refuses two options, and all others are taken") {
  const std::vector<std::string> options = {"--pp 2",
                                            "--tp 2",
                                            "--cp 2",
                                            "--dp 2",
                                            "--dp 2 --zero 1",
                                            "--dp 2 --zero 3",
                                            "--schedule zb-v",
                                            "--schedule interleaved",
                                            "--schedule braided-v",
                                            "--order ready",
                                            "--slices 2",
                                            "--recompute full",
                                            "--loss-chunks 2",
                                            "--precision bf16",
                                            "--post-validation on",
                                            "--pack isolated",
                                            "--dropout 0",
                                            "--optimizer lion",
                                            "--record out.rec",
                                            "--profile out.json",
                                            "--split 0.1",
                                            "--num-layers-at-end-in-bf16 1"};
  int taken = 0, refused = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = i + 1; j < options.size(); ++j) {
      const auto option = options[i].substr(0, options[i].find(' '));
      if (options[j].find(option + " ") != std::string::npos) continue;
      const std::string line = refusal_of({Command::Kind::train, options[i] + " " + options[j] + " --microbatches 4"});
      INFO(options[i] << " " << options[j] << ": " << line);
      if (line == "none") {
        ++taken;
        continue;
      }
      ++refused;
      const auto rows = refused_combinations();
      const bool is_told =
          std::any_of(rows.begin(), rows.end(), [&](const Combination& row) { return line.ends_with(row.why); });
      const bool keeps_bf16 = line.starts_with("--num-layers-at-end-in-bf16 1: only a run in fp8");
      CHECK((is_told || keeps_bf16));
    }
  }
  CHECK(taken > 100);
  CHECK(refused > 20);
}
