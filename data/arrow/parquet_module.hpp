// The interface of the library that reads Parquet files by Apache Arrow. The program loads the library when it needs
// it. The interface is plain C, because Arrow's libraries bring other versions of libraries that this program uses
// (simdjson), and neither side may call functions of the other's version. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// Says how much of a column is read.
enum class ParquetColumn {
  unread,    // nothing
  named,     // its name, in the first row
  glanced,   // null, empty, a number or a truth; of other values only that they exist
  texts,     // strings, for the text keys
  answers,   // strings, for prompt and response
  classes,   // integers
  ids,       // lists of integers
  masks,     // lists of integers or truths
  messages,  // lists of structs with the text role, or from
  whole,     // values of any type, as JSON
};

struct ParquetReading {
  const char* bytes;  // the file, from its first byte on
  std::size_t size;
  const char* text_key;  // the name of one of the text columns, for errors
  bool texts_alone;      // columns that are not text keys and have another type than expected are only named
  std::int64_t rows;     // only the first rows are read
  void* context;         // passed to the functions, which must not throw:
  ParquetColumn (*column)(void* context, const char* name);
  bool (*write)(void* context, const char* data, std::size_t size);  // writes JSON lines; false: stop
  void (*refuse)(void* context, std::int64_t row, const char* why);  // called once, before reading stops; row 0: the file
};

struct ParquetModule {
  void (*read)(const ParquetReading& reading);
  const char* version;  // Arrow's version
};

// The only function of the library, found by this name.
extern "C" __attribute__((visibility("default"))) const ParquetModule* pipetrain_parquet_module();
inline constexpr const char* parquet_module_function = "pipetrain_parquet_module";

}  // namespace pipetrain
