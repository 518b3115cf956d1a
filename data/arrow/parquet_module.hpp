// The library that reads Parquet files by Apache Arrow, which the program loads when it needs it. Nothing of C++ crosses over:
// Arrow's libraries bring other versions of libraries that we use (simdjson), and neither may take functions of the other.
// Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// What is wanted of a column.
enum class ParquetColumn {
  unread,    // nothing
  named,     // only that it is there: in the first row
  glanced,   // null, empty, a number or a truth; of all else only that it is there
  texts,     // strings, of the text keys
  answers,   // strings, of prompt and response
  classes,   // integers
  ids,       // lists of integers
  masks,     // lists of integers or truths
  messages,  // lists of structs
};

struct ParquetReading {
  const char* bytes;  // of the file, from its first on
  std::size_t size;
  const char* text_key;  // one of the texts' columns, for errors
  bool texts_alone;      // of columns that are not of the text keys and not of the wanted type, only that they are there
  std::int64_t rows;     // the first ones
  void* context;         // for the functions, which throw nothing:
  ParquetColumn (*column)(void* context, const char* name);
  bool (*write)(void* context, const char* data, std::size_t size);  // JSON lines; false: stop
  void (*refuse)(void* context, std::int64_t row, const char* why);  // once, and no more is read; row 0: the file
};

struct ParquetModule {
  void (*read)(const ParquetReading& reading);
  const char* version;  // of Arrow
};

// The one function of the library, by this name.
extern "C" __attribute__((visibility("default"))) const ParquetModule* pipetrain_parquet_module();
inline constexpr const char* parquet_module_function = "pipetrain_parquet_module";

}  // namespace pipetrain
