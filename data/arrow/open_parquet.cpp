#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "core/error.hpp"
#include "data/arrow/parquet_module.hpp"
#include "data/rows/chat_row.hpp"
#include "data/rows/parquet.hpp"
#include "data/rows/row_keys.hpp"
#include "data/rows/row_masks.hpp"
#include "files/unnamed_file.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Looks next to the program, in the installation folder, and in the build folder.
std::vector<fs::path> places_of_module() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path(), name = PIPETRAIN_PARQUET_MODULE_NAME;
  return {folder / name, folder / ".." / PIPETRAIN_PARQUET_LIBDIR / name, fs::path(PIPETRAIN_PARQUET_INSTALLED) / name,
          fs::path(PIPETRAIN_PARQUET_BUILT) / name};
}

// The module must find its own libraries before those of the program. The sanitizers do not support that.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int own_first = 0;
#else
constexpr int own_first = RTLD_DEEPBIND;
#endif

const ParquetModule& load() {
  std::string why = "it is neither next to the program nor in the build folder";
  for (const fs::path& path : places_of_module()) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | own_first);
    void* function = library != nullptr ? ::dlsym(library, parquet_module_function) : nullptr;
    if (function != nullptr) return *reinterpret_cast<decltype(&pipetrain_parquet_module)>(function)();
    why = ::dlerror();
  }
  throw Error(
      ErrorKind::unavailable,
      fmt::format("{}, which reads Parquet files, cannot be loaded ({}); build or install pipetrain again, with Apache Arrow "
                  "where the build found it",
                  PIPETRAIN_PARQUET_MODULE_NAME, why));
}

const ParquetModule& module() {
  static const ParquetModule& once = load();
  return once;
}

// Checks properties that Arrow might rely on unchecked.
void check_ends(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::input, fmt::format("{}: {}", file.path().string(), why));
  };
  constexpr std::size_t smallest = 12;  // the name at both ends, and the length of the footer
  if (bytes.ends_with("PARE")) fail("is encrypted; write it without encryption");
  if (!bytes.starts_with("PAR1")) fail("is not a Parquet file, which begins with PAR1; check the name's end");
  if (bytes.size() < smallest || !bytes.ends_with("PAR1"))
    fail("does not end as a Parquet file; it is cut short, or still being written");
  std::size_t footer = 0;
  for (std::size_t i = 0; i < 4; ++i) footer |= std::size_t{static_cast<unsigned char>(bytes[bytes.size() - 8 + i])} << (8 * i);
  if (footer == 0 || footer > bytes.size() - smallest)
    fail(fmt::format("has a footer of {} bytes in a file of {}; the file is damaged", footer, bytes.size()));
}

// Maps a name to a column as RowReader maps a key.
ParquetColumn parquet_column_of(std::string_view name, const TextKeys& text_keys) {
  if (std::find(text_keys.names.begin(), text_keys.names.end(), name) != text_keys.names.end()) return ParquetColumn::texts;
  const RowKey key = row_key(name);
  if (key == RowKey::prompt || key == RowKey::response) return ParquetColumn::answers;
  if (key == RowKey::ids || key == RowKey::labels) return ParquetColumn::ids;
  if (key == RowKey::label) return ParquetColumn::classes;
  if (key == RowKey::messages) return ParquetColumn::messages;
  if (is_for_templates(name)) return ParquetColumn::whole;
  if (RowMasks::kind_of(name)) return ParquetColumn::masks;
  const KeyMeaning meaning = rule_of_key(name).meaning;
  if (meaning == KeyMeaning::harmless) return ParquetColumn::unread;
  return meaning == KeyMeaning::unknown ? ParquetColumn::named : ParquetColumn::glanced;
}

// The context of the callbacks with which the module asks and reports while it reads.
struct Unpacking {
  const TextKeys& text_keys;
  UnnamedFile out;
  std::exception_ptr failure;  // thrown while writing
  std::int64_t row = 0;
  std::string why;

  static ParquetColumn column(void* context, const char* name) {
    return parquet_column_of(name, static_cast<Unpacking*>(context)->text_keys);
  }
  static bool write(void* context, const char* data, std::size_t size) {
    auto& self = *static_cast<Unpacking*>(context);
    try {
      self.out.write(data, size);
      return true;
    } catch (...) {
      self.failure = std::current_exception();
      return false;
    }
  }
  static void refuse(void* context, std::int64_t row, const char* why) {
    auto& self = *static_cast<Unpacking*>(context);
    constexpr std::size_t most = 400;
    self.row = row;
    self.why = std::string(why).substr(0, most);
    for (char& c : self.why)  // names of columns come from the file
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
};

}  // namespace

MappedFile open_parquet(const fs::path& path, const TextKeys& text_keys, std::int64_t rows) {
  const MappedFile file(path);
  check_ends(file);
  Unpacking unpacking{text_keys, UnnamedFile(path), nullptr, 0, ""};
  module().read({file.bytes().data(), file.bytes().size(), text_keys.names.front().c_str(), text_keys.chosen, rows, &unpacking,
                 Unpacking::column, Unpacking::write, Unpacking::refuse});
  if (unpacking.failure) std::rethrow_exception(unpacking.failure);
  const std::string where = unpacking.row > 0 ? fmt::format("{}:{}", path.string(), unpacking.row) : path.string();
  if (!unpacking.why.empty()) throw Error(ErrorKind::input, fmt::format("{}: {}", where, unpacking.why));
  return MappedFile(path, unpacking.out.descriptor());
}

std::string describe_parquet() {
  try {
    return fmt::format("ok: Arrow {}", module().version);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace pipetrain
