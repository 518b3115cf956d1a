// Every command that reads data reads Parquet files as it reads JSON lines.
#include "apps/pipetrain_program.hpp"
#include "paths.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

// 200 rows as JSON lines and as Parquet.
struct TwoFiles {
  TempFolder folder;
  std::string json, parquet;

  TwoFiles() {
    std::string rows;
    for (int i = 0; i < 200; ++i) rows += "{\"text\": \"row " + std::to_string(i * i) + " of them\\nwith \\u00e9t\\u00e9\"}\n";
    json = folder.write("rows.jsonl", rows).string();
    parquet = (folder.path() / "rows.parquet").string();
    REQUIRE(run_program(parquet_writer(), "'" + json + "' '" + parquet + "' zstd 64 1000").status == 0);
  }
};

std::string metrics_of(const TempFolder& folder, const std::string& options) {
  const std::string file = (folder.path() / "metrics.jsonl").string();
  const Result result = run("--device cpu --microbatch 2 --microbatches 4 --seq-len 32 --metrics '" + file + "' " + options);
  INFO(result.err);
  REQUIRE(result.status == 0);
  std::string losses;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) losses += line.substr(0, line.find("\"lr\"")) + "\n";
  return losses;
}

}  // namespace

TEST_CASE("a run on Parquet is the run on the same JSON lines, evaluated and resumed in either") {
  const TwoFiles files;
  const std::string save = (files.folder.path() / "run").string();
  const auto options = [](const std::string& file) {
    return "--lr-schedule constant --eval-interval 3 --data '" + file + "' --eval-data '" + file + "' --steps ";
  };
  const std::string whole = metrics_of(files.folder, options(files.json) + "6");
  CHECK(metrics_of(files.folder, options(files.parquet) + "6") == whole);
  metrics_of(files.folder, options(files.json) + "4 --save '" + save + "'");
  const std::string rest = metrics_of(files.folder, options(files.parquet) + "6 --pp 2 --load '" + save + "/step-00000004'");
  CHECK(whole.substr(whole.size() - std::min(rest.size(), whole.size())).find("\"step\":6") != std::string::npos);
  CHECK_THAT(whole, Contains(rest.substr(rest.find("{\"step\":5"))));
}

TEST_CASE("tokenize writes the same ids from Parquet as from JSON lines") {
  const TwoFiles files;
  const std::string gpt2 = test_data() + "/data/tokenizers/fixtures/gpt2.json";
  const auto tokens_of = [&](const std::string& file) {
    const std::string out = (files.folder.path() / "rows.tokens").string();
    const Result result = run("tokenize --tokenizer '" + gpt2 + "' --data '" + file + "' --out '" + out + "'");
    INFO(result.err);
    REQUIRE(result.status == 0);
    return read_file(out);
  };
  CHECK(tokens_of(files.parquet) == tokens_of(files.json));
}

TEST_CASE("a Parquet file that cannot be read is one line and status 2") {
  const TwoFiles files;
  const std::string whole = read_file(files.parquet);
  const auto error = [&](const std::string& bytes, const std::string& options = "") {
    return refused("--data '" + files.folder.write("bad.parquet", bytes).string() + "' " + options);
  };
  CHECK_THAT(error("PAR"), Contains("bad.parquet: is not a Parquet file"));
  CHECK_THAT(error(whole.substr(0, whole.size() - 100)), Contains("bad.parquet: does not end as a Parquet file"));
  CHECK_THAT(error(whole, "--text-keys one,two"), Contains("bad.parquet: has no column \"one\""));
  CHECK_THAT(refused("--dry-run --data '" + (files.folder.path() / "none.parquet").string() + "'"),
             Contains("there is no such file"));
}
