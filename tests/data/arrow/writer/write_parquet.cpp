// write_parquet ROWS.jsonl FILE.parquet CODEC ROWS_IN_GROUP PAGE_BYTES [COLUMN=TYPE]...
//
// Writes JSON lines as a Parquet file, for tests. Columns have the types that Arrow infers from the values, or large_string,
// binary, large_binary, dictionary, or a list: list:TYPE, large_list:TYPE, fixed:SIZE:TYPE with an integer's TYPE.
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/json/api.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>

#include <iostream>
#include <stdexcept>

namespace {

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}
template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return *std::move(result);
}

std::shared_ptr<arrow::DataType> integer_of(const std::string& name) {
  for (const auto& type : {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(), arrow::int32(), arrow::uint32(),
                           arrow::int64(), arrow::uint64()})
    if (type->name() == name) return type;
  throw std::runtime_error("no type " + name);
}

// Returns the type that the JSON reader must first parse the column as.
std::shared_ptr<arrow::DataType> parsed_type(const std::string& type) {
  return type.find(':') == std::string::npos ? arrow::utf8() : arrow::list(integer_of(type.substr(type.rfind(':') + 1)));
}

template <class Builder>
std::shared_ptr<arrow::Array> texts_by(Builder&& builder, const arrow::Array& array) {
  const auto& texts = static_cast<const arrow::StringArray&>(array);
  for (std::int64_t i = 0; i < texts.length(); ++i) check(builder.Append(texts.GetView(i)));
  return take(builder.Finish());
}

std::shared_ptr<arrow::Array> as(const std::string& type, const std::shared_ptr<arrow::Array>& array) {
  if (type == "large_string") return texts_by(arrow::LargeStringBuilder(), *array);
  if (type == "binary") return texts_by(arrow::BinaryBuilder(), *array);
  if (type == "large_binary") return texts_by(arrow::LargeBinaryBuilder(), *array);
  if (type == "dictionary") return texts_by(arrow::StringDictionaryBuilder(), *array);
  if (type.rfind("list:", 0) == 0) return array;
  const auto& list = static_cast<const arrow::ListArray&>(*array);
  if (type.rfind("fixed:", 0) == 0)
    return take(arrow::FixedSizeListArray::FromArrays(list.values(), std::stoi(type.substr(6))));
  arrow::Int64Builder offsets;
  for (std::int64_t i = 0; i <= list.length(); ++i) check(offsets.Append(list.value_offset(i)));
  return take(arrow::LargeListArray::FromArrays(*take(offsets.Finish()), *list.values()));
}

std::shared_ptr<arrow::Table> read(const std::string& path, const std::vector<std::pair<std::string, std::string>>& types) {
  auto parse = arrow::json::ParseOptions::Defaults();
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const auto& [name, type] : types) fields.push_back(arrow::field(name, parsed_type(type)));
  if (!fields.empty()) parse.explicit_schema = arrow::schema(fields);
  auto read = arrow::json::ReadOptions::Defaults();
  read.use_threads = false;
  read.block_size = 1 << 30;
  const auto input = take(arrow::io::ReadableFile::Open(path));
  auto table = take(take(arrow::json::TableReader::Make(arrow::default_memory_pool(), input, read, parse))->Read());
  for (const auto& [name, type] : types) {
    const int i = table->schema()->GetFieldIndex(name);
    const auto array = as(type, table->column(i)->chunk(0));
    table = take(table->SetColumn(i, arrow::field(name, array->type()), std::make_shared<arrow::ChunkedArray>(array)));
  }
  return table;
}

}  // namespace

int main(int, char** arguments) {
  try {
    const std::string rows = arguments[1], file = arguments[2], codec = arguments[3];
    std::vector<std::pair<std::string, std::string>> types;
    for (char** type = arguments + 6; *type != nullptr; ++type) {
      const std::string text = *type;
      types.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    }
    const auto table = read(rows, types);
    parquet::WriterProperties::Builder properties;
    properties.compression(take(arrow::util::Codec::GetCompressionType(codec)));
    properties.data_pagesize(std::stoll(arguments[5]))->write_batch_size(8);
    const auto out = take(arrow::io::FileOutputStream::Open(file));
    const auto kept = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, std::stoll(arguments[4]), properties.build(),
                                     kept));
    check(out->Close());
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
