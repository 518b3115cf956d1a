// The library that reads Parquet files by Apache Arrow, which the program loads when it needs it. Nothing of C++ crosses over:
// Arrow's libraries bring other versions of libraries that we use (simdjson), and neither may take functions of the other.
// Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

struct ParquetReading {
  const char* bytes;  // of the file, from its first on
  std::size_t size;
  const char* const* text_keys;  // as many as:
  std::size_t keys;
  std::int64_t rows;                                                 // the first ones
  void* context;                                                     // for the functions, which throw nothing:
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
