// Reads rows of Parquet files by Apache Arrow and writes them as JSON lines. Only this folder uses Arrow.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/util/compression.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/types.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "data/arrow/module/arrow_json.hpp"
#include "data/arrow/parquet_module.hpp"

namespace pipetrain {
namespace {

using Kind = arrow::Type;

constexpr std::int64_t part_bytes = std::int64_t{4} << 20, most_part_rows = 4096;
constexpr std::int64_t memory_beside_file = std::int64_t{40} << 20;

// Arrow's own limits on the size of a header.
constexpr std::size_t most_header_bytes = 100'000'000;
constexpr std::int32_t most_header_parts = 1'000'000;

// The reason why a file cannot be read; row 0: the file as a whole.
struct Refusal {
  std::int64_t row;
  std::string why;
};
[[noreturn]] void refuse(std::string why) { throw Refusal{0, std::move(why)}; }

// Arrow's memory, limited so that a file with false sizes cannot claim more than `most`.
class LimitedPool : public arrow::ProxyMemoryPool {
 public:
  explicit LimitedPool(std::size_t file_bytes)
      : ProxyMemoryPool(arrow::system_memory_pool()), most_(static_cast<std::int64_t>(file_bytes) + memory_beside_file) {}

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
    if (more <= most_ - bytes_allocated()) return arrow::Status::OK();
    return arrow::Status::OutOfMemory(fmt::format("one part of it takes more than {} MiB", most_ >> 20));
  }

  std::int64_t most_;
};

// Returns Arrow's message as a single line.
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

// A chat template may render every field of a message.
bool is_message(const arrow::DataType& type) {
  if (type.id() != Kind::STRUCT) return false;
  return std::all_of(type.fields().begin(), type.fields().end(), [](const auto& field) {
    return (field->name() != "role" && field->name() != "from") || is_text(*field->type());
  });
}

// Returns the type that a column of that name must have, if its type is another one; else nothing.
std::string wrong_type(ParquetColumn column, const arrow::DataType& type) {
  const arrow::DataType* element = element_of(type);
  const bool has_integers = element != nullptr && arrow::is_integer(element->id());
  switch (column) {
    case ParquetColumn::texts:
    case ParquetColumn::answers:
      return is_text(type) ? "" : "texts (string)";
    case ParquetColumn::classes:
      return arrow::is_integer(type.id()) ? "" : "integers";
    case ParquetColumn::messages:
      return element != nullptr && is_message(*element) ? "" : "lists of structs with the strings role and content";
    case ParquetColumn::ids:
      return has_integers ? "" : "lists of integers";
    case ParquetColumn::masks:
      return has_integers || (element != nullptr && element->id() == Kind::BOOL) ? "" : "lists of integers";
    default:
      return "";
  }
}

// Returns true if the column's values are part of the rows.
bool is_read(ParquetColumn column) { return column != ParquetColumn::unread && column != ParquetColumn::named; }

void write_value(JsonWriter& json, ParquetColumn column, const arrow::Array& values, std::int64_t i) {
  switch (column) {
    case ParquetColumn::glanced:
      return json.glance(values, i);
    case ParquetColumn::whole:
    case ParquetColumn::messages:
      return json.whole(values, i);
    default:
      return json.value(values, i);
  }
}

// Thrown to stop because the lines cannot be written.
struct Stopped {};

class ParquetRows {
 public:
  explicit ParquetRows(const ParquetReading& reading) : pool_(reading.size) {
    const auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(reading.bytes),
                                                        static_cast<std::int64_t>(reading.size));
    parquet::ReaderProperties properties(&pool_);
    const auto most = static_cast<std::int32_t>(std::min<std::size_t>(reading.size, most_header_bytes));
    // No text and no list of a header has more bytes or elements than the file.
    properties.set_thrift_string_size_limit(most);
    properties.set_thrift_container_size_limit(std::min(most, most_header_parts));
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(std::make_shared<arrow::io::BufferReader>(buffer), properties));
    builder.memory_pool(&pool_);
    check(builder.Build(&reader_));
    choose_columns(reading);
    check_columns();
  }

  // Passes on the first rows as lines.
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
  ParquetColumn column_of(const std::string& name) const {
    const auto found = wanted_.find(name);
    return found == wanted_.end() ? ParquetColumn::unread : found->second;
  }

  static ParquetColumn checked_column(const ParquetReading& reading, const arrow::Field& field) {
    if (!arrow::util::ValidateUTF8(field.name())) refuse("the name of one of its columns is not UTF-8; rename the column");
    const ParquetColumn column = reading.column(reading.context, field.name().c_str());
    const std::string wanted = wrong_type(column, *field.type());
    if (wanted.empty()) return column;
    if (reading.texts_alone && column != ParquetColumn::texts) return ParquetColumn::named;
    refuse(fmt::format("the column \"{}\" is of type {}; it must hold {}", field.name(), field.type()->ToString(), wanted));
  }

  // Chooses the leaves of the columns that are read, and checks their types.
  void choose_columns(const ParquetReading& reading) {
    if (metadata().is_encryption_algorithm_set()) refuse("is encrypted; write it without encryption");
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    std::string names;
    bool has_form = false;
    for (const auto& field : schema->fields()) {
      if (names.size() < 200) names += (names.empty() ? "" : ", ") + field->name();
      if (is_all_null(*field->type())) continue;
      const ParquetColumn column = checked_column(reading, *field);
      wanted_[field->name()] = column;
      if (column == ParquetColumn::named) named_.push_back(field->name());
      has_form = has_form || (is_read(column) && column != ParquetColumn::glanced && column != ParquetColumn::whole);
    }
    const parquet::SchemaDescriptor& leaves = *metadata().schema();
    for (int leaf = 0; leaf < leaves.num_columns(); ++leaf)
      if (is_read(column_of(leaves.GetColumnRoot(leaf)->name()))) columns_.push_back(leaf);
    if (!has_form)
      refuse(fmt::format("has no column \"{}\", \"prompt\", \"messages\" or \"input_ids\"; it has {}", reading.text_key,
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

  // Nulls are left out.
  void add_row(const arrow::RecordBatch& batch, std::int64_t i, std::string& lines) const {
    JsonWriter json(lines);
    lines += '{';
    const std::size_t begin = lines.size();
    const auto add_name = [&](const std::string& name) {
      if (lines.size() > begin) lines += ',';
      json.string(name);
      lines += ':';
    };
    for (int c = 0; c < batch.num_columns(); ++c) {
      const std::string& name = batch.schema()->field(c)->name();
      const arrow::Array& values = *batch.column(c);
      try {
        if (is_null(values, i)) continue;
        add_name(name);
        write_value(json, column_of(name), values, i);
      } catch (const ValueFault& fault) {
        throw Refusal{row_ + 1, fmt::format("\"{}\" {}", name, fault.why)};
      }
    }
    for (const std::string& name : named_) {
      if (row_ > 0) break;
      add_name(name);
      lines += "true";
    }
    lines += "}\n";
  }

  std::map<std::string, ParquetColumn> wanted_;
  std::vector<std::string> named_;  // written into the first row
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
