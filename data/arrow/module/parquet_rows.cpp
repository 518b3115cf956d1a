// Rows of Parquet files by Apache Arrow, as JSON lines: the only file that knows Arrow.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/util/compression.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/types.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "data/arrow/parquet_module.hpp"

namespace pipetrain {
namespace {

using Kind = arrow::Type;

constexpr std::int64_t part_bytes = std::int64_t{4} << 20, most_part_rows = 4096;
constexpr std::int64_t most_memory = std::int64_t{1} << 30;

// Why a file cannot be read; row 0: as a whole.
struct Refusal {
  std::int64_t row;
  std::string why;
};
[[noreturn]] void refuse(std::string why) { throw Refusal{0, std::move(why)}; }

// Memory for Arrow, of which a file that claims what it does not have gets no more than the most.
class LimitedPool : public arrow::ProxyMemoryPool {
 public:
  LimitedPool() : ProxyMemoryPool(arrow::system_memory_pool()) {}

  using ProxyMemoryPool::Allocate;
  using ProxyMemoryPool::Reallocate;
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check(size));
    return ProxyMemoryPool::Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t before, std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check(size - before));
    return ProxyMemoryPool::Reallocate(before, size, alignment, out);
  }

 private:
  arrow::Status check(std::int64_t more) const {
    if (more <= most_memory - bytes_allocated()) return arrow::Status::OK();
    return arrow::Status::OutOfMemory("one part of it takes more than 1 GiB");
  }
};

// One line of what Arrow says.
std::string line_of(const arrow::Status& status) {
  std::string text = status.message();
  text = text.substr(0, std::min<std::size_t>(text.find_first_of("\r\n"), 160));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

[[noreturn]] void refuse(const arrow::Status& status) {
  if (status.IsOutOfMemory()) refuse(fmt::format("cannot be read ({}); write it again with smaller pages", line_of(status)));
  refuse(fmt::format("cannot be read as Parquet ({}); the file is damaged or cut short", line_of(status)));
}

void check(const arrow::Status& status) {
  if (!status.ok()) refuse(status);
}

template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return *std::move(result);
}

bool is_text(const arrow::DataType& type) {
  if (type.id() == Kind::DICTIONARY) return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type.id() == Kind::STRING || type.id() == Kind::LARGE_STRING || type.id() == Kind::BINARY ||
         type.id() == Kind::LARGE_BINARY;
}

// Of a list, what it is of; null for other types.
const arrow::DataType* element_of(const arrow::DataType& type) {
  const bool is_list = type.id() == Kind::LIST || type.id() == Kind::LARGE_LIST || type.id() == Kind::FIXED_SIZE_LIST;
  return is_list ? static_cast<const arrow::BaseListType&>(type).value_type().get() : nullptr;
}

// Only role and content are written; another field is only named, where it is not null.
bool is_message(const arrow::DataType& type) {
  if (type.id() != Kind::STRUCT) return false;
  return std::all_of(type.fields().begin(), type.fields().end(), [](const auto& field) {
    return (field->name() != "role" && field->name() != "content") || is_text(*field->type());
  });
}

// What a column of that name is to hold, where its type is another one; else nothing.
std::string wrong_type(const std::string& name, const arrow::DataType& type, bool must_be_text) {
  const arrow::DataType* element = element_of(type);
  if (must_be_text) return is_text(type) ? "" : "texts (string)";
  if (name == "label") return arrow::is_integer(type.id()) ? "" : "integers";
  if (name == "messages")
    return element != nullptr && is_message(*element) ? "" : "lists of structs with the strings role and content";
  return element != nullptr && arrow::is_integer(element->id()) ? "" : "lists of integers";
}

// What is wrong with a value, which does not know where it is.
struct ValueFault {
  std::string why;
};

bool is_null(const arrow::Array& array, std::int64_t i) {
  if (array.IsNull(i) || array.type_id() != Kind::DICTIONARY) return array.IsNull(i);
  const auto& words = static_cast<const arrow::DictionaryArray&>(array);
  const std::int64_t word = words.GetValueIndex(i);
  if (word < 0 || word >= words.dictionary()->length())
    throw ValueFault{"is not in the column's dictionary; the file is damaged"};
  return words.dictionary()->IsNull(word);
}

// Of a value that is not null.
std::string_view string_at(const arrow::Array& array, std::int64_t i) {
  switch (array.type_id()) {
    case Kind::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return string_at(*words.dictionary(), words.GetValueIndex(i));
    }
    case Kind::LARGE_STRING:
    case Kind::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
    default:
      return static_cast<const arrow::BinaryArray&>(array).GetView(i);
  }
}

// The elements of list i.
struct Elements {
  const arrow::Array& values;
  std::int64_t begin, end;
};
Elements elements_at(const arrow::Array& array, std::int64_t i) {
  const auto of = [i](const auto& list) {
    return Elements{*list.values(), list.value_offset(i), list.value_offset(i) + list.value_length(i)};
  };
  if (array.type_id() == Kind::LARGE_LIST) return of(static_cast<const arrow::LargeListArray&>(array));
  if (array.type_id() == Kind::FIXED_SIZE_LIST) return of(static_cast<const arrow::FixedSizeListArray&>(array));
  return of(static_cast<const arrow::ListArray&>(array));
}

constexpr char hex[] = "0123456789abcdef";

// Appends values to a text, as JSON.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& text) : text_(text) {}

  void value(const arrow::Array& array, std::int64_t i) {
    if (is_null(array, i)) throw ValueFault{"is null; give it a value, or leave the row out"};
    if (is_text(*array.type())) return string(string_at(array, i));
    if (element_of(*array.type()) == nullptr) return integers(array, i, i + 1);
    const auto [values, begin, end] = elements_at(array, i);
    text_ += '[';
    values.type_id() == Kind::STRUCT ? messages(static_cast<const arrow::StructArray&>(values), begin, end)
                                     : integers(values, begin, end);
    text_ += ']';
  }

  void string(std::string_view value) {
    if (!arrow::util::ValidateUTF8(value)) throw ValueFault{"holds bytes that are no UTF-8; texts are UTF-8"};
    text_ += '"';
    std::size_t written = 0;
    for (std::size_t at = 0; at < value.size(); ++at) {
      const auto byte = static_cast<unsigned char>(value[at]);
      if (byte != '"' && byte != '\\' && byte >= 0x20) continue;
      text_.append(value, written, at - written);
      text_.append("\\u00").append(1, hex[byte >> 4]).append(1, hex[byte & 15]);
      written = at + 1;
    }
    text_.append(value, written).append(1, '"');
  }

 private:
  void integers(const arrow::Array& values, std::int64_t begin, std::int64_t end) {
    switch (values.type_id()) {
      case Kind::INT8:
        return integers_of<arrow::Int8Array>(values, begin, end);
      case Kind::UINT8:
        return integers_of<arrow::UInt8Array>(values, begin, end);
      case Kind::INT16:
        return integers_of<arrow::Int16Array>(values, begin, end);
      case Kind::UINT16:
        return integers_of<arrow::UInt16Array>(values, begin, end);
      case Kind::INT32:
        return integers_of<arrow::Int32Array>(values, begin, end);
      case Kind::UINT32:
        return integers_of<arrow::UInt32Array>(values, begin, end);
      case Kind::UINT64:
        return integers_of<arrow::UInt64Array>(values, begin, end);
      default:
        return integers_of<arrow::Int64Array>(values, begin, end);
    }
  }
  template <class Integers>
  void integers_of(const arrow::Array& array, std::int64_t begin, std::int64_t end) {
    const auto& values = static_cast<const Integers&>(array);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i > begin) text_ += ',';
      values.IsNull(i) ? text_ += "null" : text_ += fmt::format_int(values.Value(i)).c_str();
    }
  }

  // A field that is null is one that the message does not have. Those that nobody reads are only named.
  void messages(const arrow::StructArray& values, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (i > begin) text_ += ',';
      if (values.IsNull(i)) {
        text_ += "null";
        continue;
      }
      text_ += '{';
      bool is_first = true;
      for (int f = 0; f < values.num_fields(); ++f) {
        const std::string& name = values.struct_type()->field(f)->name();
        const arrow::Array& field = *values.field(f);
        if (is_null(field, i)) continue;
        if (!std::exchange(is_first, false)) text_ += ',';
        string(name);
        text_ += ':';
        name == "role" || name == "content" ? string(string_at(field, i)) : void(text_ += "null");
      }
      text_ += '}';
    }
  }

  std::string& text_;
};

// Stops because what was read cannot be written.
struct Stopped {};

class ParquetRows {
 public:
  explicit ParquetRows(const ParquetReading& reading) : texts_(reading.text_keys, reading.text_keys + reading.keys) {
    texts_.insert({"prompt", "response"});
    const auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(reading.bytes),
                                                        static_cast<std::int64_t>(reading.size));
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(std::make_shared<arrow::io::BufferReader>(buffer), parquet::ReaderProperties(&pool_)));
    builder.memory_pool(&pool_);
    check(builder.Build(&reader_));
    choose_columns(reading.text_keys[0]);
    check_columns();
  }

  // Hands over the first rows as lines.
  void read(const ParquetReading& reading) {
    constexpr std::size_t enough = std::size_t{1} << 20;
    const std::int64_t rows = std::min(reading.rows, metadata().num_rows());
    reader_->set_batch_size(std::min(rows_in_part(), std::max<std::int64_t>(rows, 1)));
    std::vector<int> groups(static_cast<std::size_t>(reader_->num_row_groups()));
    std::iota(groups.begin(), groups.end(), 0);
    const auto batches = take(reader_->GetRecordBatchReader(groups, columns_));
    std::string lines;
    while (row_ < rows) {
      const auto batch = take(batches->Next());
      if (batch == nullptr) refuse(fmt::format("has {} rows, not the {} it promises; it is damaged", row_, rows));
      check(batch->Validate());
      for (std::int64_t i = 0; i < batch->num_rows() && row_ < rows; ++i, ++row_) {
        add_row(*batch, i, lines);
        if (lines.size() < enough) continue;
        write(reading, lines);
      }
    }
    write(reading, lines);
  }

 private:
  static void write(const ParquetReading& reading, std::string& lines) {
    if (!reading.write(reading.context, lines.data(), lines.size())) throw Stopped{};
    lines.clear();
  }
  const parquet::FileMetaData& metadata() const { return *reader_->parquet_reader()->metadata(); }
  bool is_wanted(const std::string& name) const {
    static const std::set<std::string> others = {"messages", "input_ids", "labels", "label"};
    return texts_.contains(name) || others.contains(name);
  }

  // The leaves of those that a row can have, which must be of the right type.
  void choose_columns(const std::string& text_key) {
    if (metadata().is_encryption_algorithm_set()) refuse("is encrypted; write it without encryption");
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    std::string names;
    for (const auto& field : schema->fields()) {
      if (names.size() < 200) names += (names.empty() ? "" : ", ") + field->name();
      if (!is_wanted(field->name())) continue;
      const std::string wanted = wrong_type(field->name(), *field->type(), texts_.contains(field->name()));
      if (!wanted.empty())
        refuse(
            fmt::format("the column \"{}\" is of type {}; it must hold {}", field->name(), field->type()->ToString(), wanted));
    }
    const parquet::SchemaDescriptor& leaves = *metadata().schema();
    for (int leaf = 0; leaf < leaves.num_columns(); ++leaf)
      if (is_wanted(leaves.GetColumnRoot(leaf)->name())) columns_.push_back(leaf);
    if (columns_.empty())
      refuse(fmt::format("has no column \"{}\", \"prompt\", \"messages\" or \"input_ids\"; it has {}", text_key,
                         names.empty() ? "none" : names));
  }

  void check_columns() const {
    for (int group = 0; group < metadata().num_row_groups(); ++group)
      for (const int leaf : columns_) {
        const auto codec = metadata().RowGroup(group)->ColumnChunk(leaf)->compression();
        if (!parquet::IsCodecSupported(codec) || !arrow::util::Codec::IsAvailable(codec))
          refuse(
              fmt::format("the column \"{}\" is compressed by {}, which this Arrow does not read; write it with zstd or snappy",
                          metadata().schema()->GetColumnRoot(leaf)->name(), arrow::util::Codec::GetCodecAsString(codec)));
      }
  }

  std::int64_t rows_in_part() const {
    std::int64_t bytes = 0;
    for (int group = 0; group < metadata().num_row_groups(); ++group)
      for (const int leaf : columns_) {
        const std::int64_t more = metadata().RowGroup(group)->ColumnChunk(leaf)->total_uncompressed_size();
        bytes += std::clamp<std::int64_t>(more, 0, std::int64_t{1} << 40);
      }
    const std::int64_t row_bytes = bytes / std::max<std::int64_t>(metadata().num_rows(), 1) + 1;
    return std::clamp<std::int64_t>(part_bytes / row_bytes, 1, most_part_rows);
  }

  void add_row(const arrow::RecordBatch& batch, std::int64_t i, std::string& lines) const {
    JsonWriter json(lines);
    lines += '{';
    for (int c = 0; c < batch.num_columns(); ++c) {
      const std::string& name = batch.schema()->field(c)->name();
      try {
        if (c > 0) lines += ',';
        json.string(name);
        lines += ':';
        json.value(*batch.column(c), i);
      } catch (const ValueFault& fault) {
        throw Refusal{row_ + 1, fmt::format("\"{}\" {}", name, fault.why)};
      }
    }
    lines += "}\n";
  }

  std::set<std::string> texts_;  // columns of texts
  LimitedPool pool_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> columns_;
  std::int64_t row_ = 0;
};

void read(const ParquetReading& reading) {
  const auto refused = [&](const Refusal& refusal) { reading.refuse(reading.context, refusal.row, refusal.why.c_str()); };
  const auto failed = [&](const arrow::Status& status) {
    try {
      refuse(status);
    } catch (const Refusal& refusal) {
      refused(refusal);
    }
  };
  try {
    ParquetRows(reading).read(reading);
  } catch (const Refusal& refusal) {
    refused(refusal);
  } catch (const Stopped&) {
  } catch (const parquet::ParquetStatusException& error) {
    failed(error.status());
  } catch (const std::exception& error) {
    failed(arrow::Status::Invalid(error.what()));
  }
}

}  // namespace

const ParquetModule* pipetrain_parquet_module() {
  static const ParquetModule module = [] {
    arrow::util::InitializeUTF8();
    return ParquetModule{read, arrow::GetBuildInfo().version_string.c_str()};
  }();
  return &module;
}

}  // namespace pipetrain
