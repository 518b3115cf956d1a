#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

namespace {

constexpr int format_version = 1;
constexpr const char* format_name = "pipetrain devices";
constexpr std::size_t largest_file = std::size_t{1} << 20;

class Reader {
 public:
  Reader(const std::filesystem::path& path, const Json& file) : path_(path.string()), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}; measure the devices anew", path_, what));
  }
  const Json& at(const char* key) const {
    if (!file_.is_object() || !file_.contains(key)) fail(fmt::format("is no measurement of devices: {} is missing", key));
    return file_.at(key);
  }
  double number(const char* key, const DeviceRange& range) const {
    const Json& value = at(key);
    const double number = value.is_number() ? value.as_double() : 0;
    if (!(number >= range.least && number <= range.most))
      fail(fmt::format("{} is {}, not a number from {} to {}", key, value.dump({.ascii = true}), range.least, range.most));
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
  const Json& file_;
};

// Reads the host numbers of processes, which must be in order of their first processes.
std::vector<int> read_hosts(const Reader& reader) {
  const Json& numbers = reader.at("hosts");
  if (!numbers.is_array() || numbers.size() < 2 || numbers.size() > most_measured_processes)
    reader.fail(fmt::format("hosts is no list of 2 to {} numbers, one for each process", most_measured_processes));
  std::vector<int> hosts;
  int next = 0;
  for (const Json& number : numbers) {
    const bool known = number.is_unsigned() && number.as_uint64() <= static_cast<std::uint64_t>(next);
    if (!known) reader.fail(fmt::format("hosts has {}, but hosts must count from 0 in order", number.dump({.ascii = true})));
    hosts.push_back(static_cast<int>(number.as_uint64()));
    if (hosts.back() == next) ++next;
  }
  return hosts;
}

std::vector<MeasuredLink> read_links(const std::filesystem::path& path, const Reader& reader, std::size_t processes) {
  const Json& entries = reader.at("links");
  const std::size_t pairs = processes * (processes - 1) / 2;
  if (!entries.is_array() || entries.size() != pairs)
    reader.fail(fmt::format("links is no list of the {} between {} processes", pairs, processes));
  std::vector<MeasuredLink> links;
  std::size_t at = 0;
  for (std::size_t one = 0; one < processes; ++one) {
    for (std::size_t other = one + 1; other < processes; ++other, ++at) {
      const Reader link(path, entries[at]);
      if (link.at("processes") != Json::array({one, other}))
        reader.fail(fmt::format("links has at {} another pair than processes {} and {}", at, one, other));
      links.push_back({link.number("rate", rate_range), link.number("latency", time_range)});
    }
  }
  return links;
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

int MeasuredDevices::host_count() const { return hosts.empty() ? 1 : *std::max_element(hosts.begin(), hosts.end()) + 1; }

const MeasuredLink& MeasuredDevices::link(int one, int other) const {
  const auto [low, high] = std::minmax({static_cast<std::size_t>(one), static_cast<std::size_t>(other)});
  const std::size_t before = low * (2 * hosts.size() - low - 1) / 2;  // number of links of lower processes
  return links.at(before + high - low - 1);
}

std::optional<MeasuredLink> MeasuredDevices::between_hosts() const {
  std::optional<MeasuredLink> worst;
  for (int one = 0; one < processes(); ++one) {
    for (int other = one + 1; other < processes(); ++other) {
      if (hosts[static_cast<std::size_t>(one)] == hosts[static_cast<std::size_t>(other)]) continue;
      const MeasuredLink& between = link(one, other);
      if (!worst) worst = between;
      worst = MeasuredLink{std::min(worst->rate, between.rate), std::max(worst->latency, between.latency)};
    }
  }
  return worst;
}

void write_measured_devices(std::ostream& out, const MeasuredDevices& devices) {
  Json file = Json::object({{"format", format_name},
                            {"version", format_version},
                            {"device", name_of(devices.kind)},
                            {"devices", devices.count},
                            {"threads", devices.threads},
                            {"memory_bytes", devices.memory_bytes},
                            {"fp32_flops", devices.fp32_flops},
                            {"bf16_flops", or_null(devices.bf16_flops)},
                            {"memory_rate", devices.memory_rate},
                            {"block_overhead", devices.block_overhead},
                            {"link_rate", or_null(devices.link_rate)},
                            {"latency", or_null(devices.latency)}});
  if (!devices.hosts.empty()) {
    file["hosts"] = devices.hosts;
    Json& links = file["links"] = Json::array();
    for (int one = 0; one < devices.processes(); ++one) {
      for (int other = one + 1; other < devices.processes(); ++other) {
        const MeasuredLink& link = devices.link(one, other);
        links.push_back(
            Json::object({{"processes", Json::array({one, other})}, {"rate", link.rate}, {"latency", link.latency}}));
      }
    }
  }
  out << file.dump({.indent = 1, .order = JsonOrder::as_added}) << "\n";
}

MeasuredDevices read_measured_devices(const std::filesystem::path& path) {
  const Json file = parse_json(read_text(path, largest_file), {path.string()});
  const Reader reader(path, file);
  if (reader.at("format") != format_name) reader.fail("is no measurement of devices: its format is another");
  if (reader.at("version") != format_version) reader.fail("was written by another version of pipetrain");
  MeasuredDevices devices;
  const Json& kind = reader.at("device");
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
  if (!file.contains("hosts") && !file.contains("links")) return devices;
  devices.hosts = read_hosts(reader);
  devices.links = read_links(path, reader, devices.hosts.size());
  return devices;
}

}  // namespace pipetrain
