#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

namespace {

using nlohmann::json;

constexpr int format_version = 1;
constexpr const char* format_name = "pipetrain devices";
constexpr std::size_t largest_file = std::size_t{1} << 20;

class Reader {
 public:
  Reader(const std::filesystem::path& path, const json& file) : path_(path.string()), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}; measure the devices anew", path_, what));
  }
  const json& at(const char* key) const {
    if (!file_.is_object() || !file_.contains(key)) fail(fmt::format("is no measurement of devices: {} is missing", key));
    return file_[key];
  }
  double number(const char* key, const DeviceRange& range) const {
    const json& value = at(key);
    const double number = value.is_number() ? value.get<double>() : 0;
    if (!(number >= range.least && number <= range.most))
      fail(fmt::format("{} is {}, not a number from {} to {}", key, value.dump(-1, ' ', true), range.least, range.most));
    return number;
  }
  std::optional<double> number_or_null(const char* key, const DeviceRange& range) const {
    return at(key).is_null() ? std::nullopt : std::optional(number(key, range));
  }
  int count(const char* key) const {
    const double value = number(key, {1, 65536});
    if (value != std::floor(value)) fail(fmt::format("{} is {}, not a count", key, value));
    return static_cast<int>(value);
  }

 private:
  std::string path_;
  const json& file_;
};

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

}  // namespace

void write_measured_devices(std::ostream& out, const MeasuredDevices& devices) {
  const nlohmann::ordered_json file = {{"format", format_name},
                                       {"version", format_version},
                                       {"device", devices.kind == DeviceKind::cpu ? "cpu" : "cuda"},
                                       {"devices", devices.count},
                                       {"threads", devices.threads},
                                       {"memory_bytes", devices.memory_bytes},
                                       {"fp32_flops", devices.fp32_flops},
                                       {"bf16_flops", or_null(devices.bf16_flops)},
                                       {"memory_rate", devices.memory_rate},
                                       {"block_overhead", devices.block_overhead},
                                       {"link_rate", or_null(devices.link_rate)},
                                       {"latency", or_null(devices.latency)}};
  out << file.dump(1) << "\n";
}

MeasuredDevices read_measured_devices(const std::filesystem::path& path) {
  const json file = parse_json(read_text(path, largest_file), {path.string()});
  const Reader reader(path, file);
  if (reader.at("format") != format_name) reader.fail("is no measurement of devices: its format is another");
  if (reader.at("version") != format_version) reader.fail("was written by another version of pipetrain");
  MeasuredDevices devices;
  const json& kind = reader.at("device");
  if (kind != "cpu" && kind != "cuda") reader.fail("device is neither cpu nor cuda");
  devices.kind = kind == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  devices.count = reader.count("devices");
  devices.threads = reader.count("threads");
  devices.memory_bytes = reader.number("memory_bytes", memory_range);
  devices.fp32_flops = reader.number("fp32_flops", flops_range);
  devices.bf16_flops = reader.number_or_null("bf16_flops", flops_range);
  devices.memory_rate = reader.number("memory_rate", rate_range);
  devices.block_overhead = reader.number("block_overhead", time_range);
  devices.link_rate = reader.number_or_null("link_rate", rate_range);
  devices.latency = reader.number_or_null("latency", time_range);
  return devices;
}

}  // namespace pipetrain
