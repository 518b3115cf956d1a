// Parquet files on the command line of a build without Apache Arrow.
#include "apps/pipetrain_program.hpp"
#include "skip.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

TEST_CASE("without Arrow a Parquet file is one line and status 2, and doctor says what to do") {
  const TempFolder folder;
  CHECK_THAT(refused("--data '" + folder.write("rows.parquet", "PAR1").string() + "'"), Contains("built without Apache Arrow"));
  CHECK_THAT(run("doctor").out, Contains("parquet    not built: build with Apache Arrow"));
}

TEST_CASE("Parquet files on the command line") { test::skip("built without Apache Arrow"); }
