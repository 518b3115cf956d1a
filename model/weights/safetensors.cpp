#include "model/weights/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <optional>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/file_pieces.hpp"
#include "files/json.hpp"
#include "model/weights/float_reading.hpp"

namespace pipetrain {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr const char* mismatch_remedy = "give the weights and the config.json of one model";
constexpr std::uint64_t most_header_bytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t most_tensors = 1'000'000;           // in one file
constexpr std::size_t most_dimensions = 64;

struct DTypeName {
  const char* name;
  std::uint64_t bytes;
};
constexpr std::array dtype_names{DTypeName{"F32", 4},    DTypeName{"BF16", 2},    DTypeName{"F16", 2},     DTypeName{"F64", 8},
                                 DTypeName{"I64", 8},    DTypeName{"I32", 4},     DTypeName{"I16", 2},     DTypeName{"I8", 1},
                                 DTypeName{"U64", 8},    DTypeName{"U32", 4},     DTypeName{"U16", 2},     DTypeName{"U8", 1},
                                 DTypeName{"BOOL", 1},   DTypeName{"F8_E4M3", 1}, DTypeName{"F8_E5M2", 1}, DTypeName{"C64", 8},
                                 DTypeName{"F8_E8M0", 1}};

// Returns 0 for a name that this reader does not know.
std::uint64_t dtype_bytes(const std::string& name) {
  for (const DTypeName& dtype : dtype_names) {
    if (name == dtype.name) return dtype.bytes;
  }
  return 0;
}

// Returns nothing if the product does not fit.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, std::uint64_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) return std::nullopt;
  }
  return bytes;
}

bool is_offset(const Json& value) { return value.is_unsigned(); }
bool is_dim(const Json& value) { return value.is_unsigned() && value.whole(); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

bool same_shape(const std::vector<std::int64_t>& shape, const Shape& other) {
  if (shape.size() != static_cast<std::size_t>(other.rank())) return false;
  for (int axis = 0; axis < other.rank(); ++axis) {
    if (shape[static_cast<std::size_t>(axis)] != other[axis]) return false;
  }
  return true;
}

// Returns the types that read() converts.
SavedType type_of(const std::string& dtype) {
  if (dtype == "F32") return SavedType::fp32;
  return dtype == "BF16" ? SavedType::bf16 : SavedType::fp16;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path) { read_header(); }

void SafetensorsReader::refuse(const std::string& what, const char* remedy) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}; {}", file_.path().string(), what, remedy));
}

void SafetensorsReader::read_header() {
  std::uint64_t length = 0;
  if (file_.size() < sizeof(length)) {
    refuse(fmt::format("truncated: {} bytes are too few for a safetensors file", file_.size()));
  }
  file_.read_at(0, &length, sizeof(length));
  if (length > most_header_bytes) {
    refuse(fmt::format("its header claims {} bytes, more than the {} allowed: not a safetensors file, or damaged", length,
                       most_header_bytes));
  }
  data_begin_ = sizeof(length) + length;
  if (data_begin_ > file_.size()) {
    refuse(fmt::format("its header claims {} bytes and the file has {}: truncated, or not a safetensors file", length,
                       file_.size()));
  }
  const std::string where = file_.path().string() + ": header";
  // Metadata may hold long texts.
  const JsonLimits limits{.depth = 3, .values = 100'000, .token_bytes = std::size_t{16} << 20};
  bool has_metadata = false;
  read_json_members(pieces_of(file_, sizeof(length), length), {where, false}, limits, [&](JsonMember&& member) {
    if (member.key == "__metadata__") return !std::exchange(has_metadata, true);
    if (entries_.size() >= most_tensors) refuse(fmt::format("its header has more than {} tensors", most_tensors));
    Entry entry = read_entry(member.key, member.value);
    return entries_.emplace(std::move(member.key), std::move(entry)).second;
  });
}

SafetensorsReader::Entry SafetensorsReader::read_entry(const std::string& name, const Json& value) const {
  const auto refuse_tensor = [&](const std::string& what) { refuse(fmt::format("tensor {}: {}", name, what)); };
  if (!value.is_object()) refuse_tensor("its header entry is not an object");
  const Json *const dtype = value.find("dtype"), *const shape = value.find("shape"),
                    *const offsets = value.find("data_offsets");
  if (!dtype || !dtype->is_string()) refuse_tensor("no dtype");
  if (!shape || !shape->is_array() || !std::all_of(shape->begin(), shape->end(), is_dim)) {
    refuse_tensor("its shape is not a list of whole numbers");
  }
  if (shape->size() > most_dimensions) {
    refuse_tensor(fmt::format("its shape has {} dimensions, more than the {} supported", shape->size(), most_dimensions));
  }
  if (!offsets || !offsets->is_array() || offsets->size() != 2 || !std::all_of(offsets->begin(), offsets->end(), is_offset)) {
    refuse_tensor("its data_offsets are not two whole numbers");
  }
  Entry entry{dtype->as_string(), {}, 0, 0};
  for (const Json& dim : *shape) entry.shape.push_back(dim.as_int64());
  const std::uint64_t begin = (*offsets)[0].as_uint64(), end = (*offsets)[1].as_uint64();
  const std::uint64_t element_bytes = dtype_bytes(entry.dtype);
  if (element_bytes == 0) refuse_tensor(fmt::format("unknown dtype {}", dtype->dump({.ascii = true})));
  const auto bytes = byte_count(entry.shape, element_bytes);
  if (!bytes) refuse_tensor(fmt::format("the size of shape {} overflows", shape_text(entry.shape)));
  if (begin > end || end > file_.size() - data_begin_) {
    refuse_tensor(fmt::format("its data_offsets [{}, {}] are outside the file's {} bytes of data: truncated, or damaged", begin,
                              end, file_.size() - data_begin_));
  }
  if (end - begin != *bytes) {
    refuse_tensor(fmt::format("its data_offsets hold {} bytes, its shape {} of {} needs {}", end - begin,
                              shape_text(entry.shape), entry.dtype, *bytes));
  }
  entry.begin = data_begin_ + begin;
  entry.end = data_begin_ + end;
  return entry;
}

void SafetensorsReader::check_coverage() const {
  std::vector<const std::pair<const std::string, Entry>*> sorted;
  for (const auto& item : entries_) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  const auto refuse_bytes = [this](std::uint64_t bytes, const std::string& where) {
    refuse(fmt::format("{} bytes {} belong to no tensor: its header lacks one, or the file is damaged", bytes, where));
  };
  std::uint64_t covered = data_begin_;
  const std::string* before = nullptr;
  for (const auto* item : sorted) {
    const auto& [name, entry] = *item;
    if (entry.begin < covered) refuse(fmt::format("tensors {} and {} overlap", *before, name));
    if (entry.begin > covered) refuse_bytes(entry.begin - covered, "before tensor " + name);
    covered = entry.end;
    before = &name;
  }
  if (covered != file_.size()) refuse_bytes(file_.size() - covered, "at the end");
}

void SafetensorsReader::check(const std::string& name, const Shape& shape) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) refuse(fmt::format("tensor {} is missing", name), mismatch_remedy);
  const Entry& entry = found->second;
  if (!same_shape(entry.shape, shape)) {
    refuse(fmt::format("tensor {} has shape {}, and the model's config.json asks for {}", name, shape_text(entry.shape),
                       to_string(shape)),
           mismatch_remedy);
  }
  if (entry.dtype != "F32" && entry.dtype != "F16" && entry.dtype != "BF16") {
    refuse(fmt::format("tensor {} has dtype {}", name, entry.dtype), "use F32, F16 or BF16");
  }
}

void SafetensorsReader::read(const std::string& name, std::int64_t first, std::int64_t count, float* out) const {
  const Entry& entry = entries_.at(name);
  const SavedType type = type_of(entry.dtype);
  read_floats(file_, type, entry.begin + static_cast<std::uint64_t>(first) * bytes_of(type), count, out);
}

void SafetensorsReader::read_raw(const std::string& name, std::uint64_t begin, std::size_t bytes, void* out) const {
  const Entry& entry = entries_.at(name);
  assert(begin + bytes <= entry.end - entry.begin);
  file_.read_at(entry.begin + begin, out, bytes);
}

void SafetensorsReader::read_bytes(const std::string& name, const std::function<void(const void*, std::size_t)>& take) const {
  const Entry& entry = entries_.at(name);
  std::vector<std::byte> piece(std::min<std::uint64_t>(std::uint64_t{1} << 20, entry.end - entry.begin));
  for (std::uint64_t at = entry.begin; at < entry.end; at += piece.size()) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), entry.end - at));
    file_.read_at(at, piece.data(), bytes);
    take(piece.data(), bytes);
  }
}

FileTensor file_tensor(const NamedShape& tensor, SavedType type) {
  FileTensor stored{tensor.name, safetensors_name(type), {}, 0};
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) stored.shape.push_back(tensor.shape[axis]);
  stored.bytes = static_cast<std::uint64_t>(tensor.shape.elements()) * bytes_of(type);
  return stored;
}

namespace {

std::vector<FileTensor> file_tensors(const std::vector<NamedShape>& tensors, SavedType type) {
  std::vector<FileTensor> all;
  for (const NamedShape& tensor : tensors) all.push_back(file_tensor(tensor, type));
  return all;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedShape>& tensors, SavedType type)
    : SafetensorsWriter(path, file_tensors(tensors, type), type) {}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<FileTensor> tensors, SavedType type)
    : file_(path), path_(path), tensors_(std::move(tensors)), type_(type) {
  std::string text = R"({"__metadata__":{"format":"pt"})";  // transformers refuses a file without it
  std::uint64_t offset = 0;
  for (const FileTensor& tensor : tensors_) {
    const std::uint64_t end = offset + tensor.bytes;
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", Json(tensor.name).dump(), tensor.dtype,
                        Json(tensor.shape).dump(), offset, end);
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data starts aligned
  const std::uint64_t length = text.size();
  file_.reserve(sizeof(length) + length + offset);
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof(length));
  file_.write(text.data(), text.size());
  checksums_.bytes = text.size() + offset;
  checksums_.header = checksum(text.data(), text.size());
}

void SafetensorsWriter::write(const float* values) {
  assert(next_ < tensors_.size());
  const FileTensor& tensor = tensors_[next_++];
  const std::size_t elements = tensor.bytes / bytes_of(type_);
  // Writes in pieces: while one is written to the page cache, the checksum and the rounding still find it in
  // the processor's cache.
  constexpr std::size_t most_elements = std::size_t{1} << 20;
  std::vector<std::uint16_t> rounded(type_ == SavedType::fp32 ? 0 : std::min(most_elements, elements));
  Checksum sum;
  for (std::size_t done = 0; done < elements; done += most_elements) {
    const std::size_t count = std::min(most_elements, elements - done), bytes = count * bytes_of(type_);
    const void* piece = values + done;
    if (type_ != SavedType::fp32) {
      if (!round_to(type_, values + done, count, rounded.data()))
        throw Error(ErrorKind::numeric, fmt::format("{}: tensor {} has values that {} cannot hold; save as bf16 or fp32",
                                                    path_.string(), tensor.name, type_ == SavedType::fp16 ? "fp16" : "bf16"));
      piece = rounded.data();
    }
    sum.add(piece, bytes);
    file_.write(piece, bytes);
  }
  checksums_.tensors[tensor.name] = sum.value();
}

std::uint64_t SafetensorsWriter::copy(const SafetensorsReader& from, const std::string& name) {
  assert(next_ < tensors_.size());
  Checksum sum;
  from.read_bytes(name, [&](const void* data, std::size_t bytes) {
    sum.add(data, bytes);
    file_.write(data, bytes);
  });
  return checksums_.tensors[tensors_[next_++].name] = sum.value();
}

SafetensorsChecksums SafetensorsWriter::finish() {
  assert(next_ == tensors_.size());
  file_.sync();
  return checksums_;
}

SafetensorsChecksums write_tensors(const std::filesystem::path& path, const std::vector<NamedShape>& tensors,
                                   const std::function<void(std::size_t, float*)>& fill, SavedType type) {
  SafetensorsWriter writer(path, tensors, type);
  std::vector<float> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values.resize(static_cast<std::size_t>(tensors[i].shape.elements()));
    fill(i, values.data());
    writer.write(values.data());
  }
  return writer.finish();
}

}  // namespace pipetrain
