// The errors of a build without Apache Arrow about Parquet files.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

TEST_CASE("without Arrow a Parquet file is refused, alone and in a folder, with the ways to read it") {
  const TempFolder folder;
  folder.write("a.txt", "text");
  const auto file = folder.write("b.parquet", "PAR1");
  for (const auto& path : {file, folder.path()}) {
    DatasetOptions options;
    options.inputs = {{path, std::nullopt}};
    options.sequence_length = 2;
    CHECK_THROWS_WITH(open_dataset(options), Contains("b.parquet: this pipetrain was built without Apache Arrow") &&
                                                 Contains("cmake -DArrow_ROOT=FOLDER") && Contains("to_json('FILE.jsonl'"));
  }
}

TEST_CASE("Parquet files are read") { test::skip("built without Apache Arrow"); }
