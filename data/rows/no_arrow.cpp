// Refuses Parquet files in a build without Apache Arrow.
#include <fmt/format.h>

#include "core/error.hpp"
#include "data/rows/parquet.hpp"

namespace pipetrain {

MappedFile open_parquet(const std::filesystem::path& path, const TextKeys&, std::int64_t) {
  throw Error(
      ErrorKind::input,
      fmt::format("{}: this pipetrain was built without Apache Arrow, which reads Parquet; build it with Arrow "
                  "(pip install pyarrow, then cmake -DArrow_ROOT=FOLDER of the package), or write the rows as JSON lines: "
                  "python3 -c \"import pandas; pandas.read_parquet('FILE').to_json('FILE.jsonl', orient='records', "
                  "lines=True)\"",
                  path.string()));
}

std::string describe_parquet() {
  return "not built: build with Apache Arrow (pip install pyarrow, then cmake -DArrow_ROOT=FOLDER)";
}

}  // namespace pipetrain
