// The runs that bench gpu is asked for: options, rows, and the peer's way of running them.
#include <algorithm>

#include "bench/gpu/gpu_options.hpp"
#include "bench/gpu/rows.hpp"
#include "bench/gpu/torch_peer.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;
using Catch::Matchers::Contains;

namespace {

Row selected_row(const std::string& name) { return select_rows({name}).at(0); }

std::string failure_of(const std::vector<std::string>& arguments) {
  try {
    parse_gpu_options(arguments);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "no error";
}

bool has(const std::vector<std::string>& words, const std::string& option, const std::string& value) {
  const auto found = std::find(words.begin(), words.end(), option);
  return found != words.end() && found + 1 != words.end() && found[1] == value;
}

}  // namespace

TEST_CASE("bench gpu's options") {
  const auto options = parse_gpu_options(
      {"--rows", "a,b*", "c", "--steps=4", "--warmup", "2", "--rounds", "3", "--budget", "90.5", "--parts", "limit,shares"});
  CHECK(options.rows == std::vector<std::string>{"a", "b*", "c"});
  CHECK(options.steps == 4);
  CHECK(options.warmup == 2);
  CHECK(options.rounds == 3);
  CHECK(options.budget == 90.5);
  CHECK(options.part("limit"));
  CHECK(!options.part("peer"));
  CHECK(parse_gpu_options({}).part("peer"));
  CHECK(!parse_gpu_options({"--no-peer"}).part("peer"));
  CHECK(parse_gpu_options({"--no-peer"}).part("limit"));
  CHECK(parse_gpu_options({"--parts", "none"}).parts.empty());

  CHECK_THAT(failure_of({"--stepps", "4"}), Contains("--stepps"));
  CHECK_THAT(failure_of({"--steps", "0"}), Contains("--steps 0"));
  CHECK_THAT(failure_of({"--steps", "4x"}), Contains("--steps 4x"));
  CHECK_THAT(failure_of({"--steps"}), Contains("needs a value"));
  CHECK_THAT(failure_of({"--parts", "peers"}), Contains("peers"));
}

TEST_CASE("rows are chosen by names and patterns, in the table's order") {
  CHECK(matches("llama*", "llama3-8b-8l"));
  CHECK(matches("*-pp?", "llama2-7b-pp8"));
  CHECK(!matches("*-pp?", "llama2-7b-pp2-tp4"));
  CHECK(matches("*pp2*", "llama2-7b-pp2-tp4"));
  CHECK(!matches("llama", "llama3-8b-8l"));
  CHECK(matches("", ""));

  std::vector<std::string> names;
  for (const Row& row : select_rows({"llama2-7b-pp2-tp4*", "llama3-8b-8l"})) names.push_back(row.name);
  CHECK(names == std::vector<std::string>{"llama3-8b-8l", "llama2-7b-pp2-tp4", "llama2-7b-pp2-tp4-2048"});
  for (const Row& row : select_rows({})) CHECK(!row.on_cpu);
  CHECK_THROWS_WITH(select_rows({"llama9"}), Contains("llama9"));
}

TEST_CASE("every promised row is there with its promise and the peer's recorded figure") {
  struct Promise {
    const char* name;
    int devices;
    std::int64_t tokens;
    double recorded, least;
  };
  for (const auto& [name, devices, tokens, recorded, least] : {Promise{"llama3-8b-8l", 1, 8 * 4096, 39151, 1.03},
                                                               {"llama3.2-1b", 1, 16 * 4096, 64738, 1.03},
                                                               {"llama2-7b-pp2-tp4", 8, 16 * 4096, 8292, 1.2},
                                                               {"llama2-7b-pp2-tp4-2048", 8, 16 * 2048, 4501, 2},
                                                               {"llama2-7b-pp8", 8, 32 * 4096, 9811, 1.1},
                                                               {"llama3-8b-pp2-dp4", 8, 4 * 32 * 4096, 10059, 1.1},
                                                               {"llama3-8b-pp2-tp2-dp2", 8, 2 * 32 * 4096, 8687, 1.15}}) {
    const Row row = selected_row(name);
    INFO(name);
    CHECK(row.devices() == devices);
    CHECK(row.tokens() == tokens);
    CHECK(row.recorded == recorded);
    CHECK(row.least == least);
    CHECK(row.predictable == (row.pp > 1));
  }
}

TEST_CASE("the peer gets the row's model, layout and batch") {
  const auto words =
      peer_arguments(selected_row("llama3-8b-pp2-tp2-dp2"), {"1F1B", 2, true}, {"torchrun", "peer.py", 2, 5, 29511});
  CHECK(words[0] == "torchrun");
  CHECK(std::find(words.begin(), words.end(), "peer.py") - std::find(words.begin(), words.end(), "29511") == 1);
  for (const auto& [option, value] : {std::pair("--nproc_per_node", "8"),
                                      {"--model", "llama3-8b"},
                                      {"--pp", "2"},
                                      {"--tp", "2"},
                                      {"--dp", "2"},
                                      {"--seq", "4096"},
                                      {"--mbs", "1"},
                                      {"--gas", "32"},
                                      {"--schedule", "1F1B"},
                                      {"--async_tp", "1"},
                                      {"--warmup", "2"},
                                      {"--steps", "5"}}) {
    INFO(option);
    CHECK(has(words, option, value));
  }
  const auto single =
      peer_arguments(selected_row("llama3-8b-8l"), {}, {"python3 -m torch.distributed.run", "peer.py", 2, 5, 1});
  CHECK(has(single, "--layers", "8"));
  CHECK(has(single, "-m", "torch.distributed.run"));
  CHECK(std::find(single.begin(), single.end(), "--schedule") == single.end());
}

TEST_CASE("the peer's line of results is read, and its state taken out of its memory") {
  const Row row = selected_row("llama2-7b-pp2-tp4");
  const RunFigures figures = read_peer(
      "W1121 some warning\nRESULT {\"model\": \"llama2-7b\", \"sec_step\": 0.5, \"spread\": [0.4, 0.75], \"tok_s_gpu\": "
      "8292.5, "
      "\"tflops_gpu\": 355.1, \"mem_gib\": [20.0, 20.0, 20.0, 20.0, 30.0, 30.0, 30.0, 30.5], \"torch\": \"2.11.0\"}\n",
      row, {"Interleaved1F1B", 2});
  CHECK(figures.seconds.median == 0.5);
  CHECK(figures.seconds.least == 0.4);
  CHECK(figures.seconds.most == 0.75);
  CHECK(figures.tokens_per_second == 8292.5);
  CHECK(figures.tflops == 355.1);
  CHECK(figures.variant == "Interleaved1F1B v=2");
  // 16 layers of 4 x 4096^2 + 3 x 4096 x 11008, and 32000 x 4096 of the head, over 4 ranks, in 8 bytes; and the norms.
  const double state = 8 * ((16 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 32000.0 * 4096) / 4 + 33 * 4096);
  CHECK(figures.memory_without_state == Approx(30.5 * (1 << 30) - state));
  CHECK_THROWS_WITH(read_peer("Traceback\n", row, {}), Contains("RESULT"));
}

TEST_CASE("with data parallelism the peer's state is sharded except for gathered tensors") {
  const auto one = peer_state_bytes(selected_row("llama2-7b-16l-1gpu"), {});
  const auto four = peer_state_bytes(selected_row("llama2-7b-16l-dp4"), {});
  REQUIRE(one.size() == 1);
  REQUIRE(four.size() == 4);
  CHECK(four[0] == Approx(one[0] / 8 * (12.0 / 4 + 6)));
  // The V's first stage has both ends of the model.
  const auto v = peer_state_bytes(selected_row("llama2-7b-pp8"), {"ZBVZeroBubble"});
  const auto straight = peer_state_bytes(selected_row("llama2-7b-pp8"), {});
  CHECK(v[0] == Approx(straight[0] + 8 * (32000.0 * 4096 + 4096)));
  CHECK(v[7] == Approx(straight[1]));
}
