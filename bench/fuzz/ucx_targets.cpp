#include <functional>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_edge_table.hpp"
#include "comm/ucx/ucx_header.hpp"
#include "core/error.hpp"

namespace pipetrain::fuzz {
namespace {

// A control plane that knows nothing but that there are two processes.
class TwoProcesses : public ControlPlane {
 public:
  int process() const override { return 0; }
  int processes() const override { return 2; }
  const ProcessInfo& info(int) const override { return info_; }
  bool is_gone(int) const override { return false; }
  void on_message(Channel, OnMessage) override {}
  void on_lost(OnLost) override {}
  void send(int, Channel, Bytes) override {}
  std::vector<Bytes> exchange(const std::string&, Bytes mine) override { return {mine, mine}; }
  void leave() override {}

 private:
  ProcessInfo info_;
};

std::span<const std::byte> header_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string header_text(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// An accepted header must be one that a process could have sent.
template <class Header>
void read_header(std::span<const std::byte> bytes) {
  const auto header = Header::read(bytes);
  if (!header) throw Error(ErrorKind::input, "no header");
  if (header_text(to_bytes(*header)) != std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
    throw std::logic_error("a header changed when it was read and written again");
}

void read_edges(std::span<const std::byte> bytes) {
  const TwoProcesses control;
  (void)make_edge_table(control, {Bytes(bytes.begin(), bytes.end()), describe_edges({}, {})}, {}, {});
}

void read_mirrors(std::span<const std::byte> bytes) { (void)mirrors_for(0, {Bytes(bytes.begin(), bytes.end())}); }

Target ucx_target(const std::string& name, const std::vector<Bytes>& seeds,
                  const std::function<void(std::span<const std::byte>)>& read) {
  Target target{name, {}, {}, nullptr, nullptr};
  target.run = [read](std::string_view input) {
    try {
      read(header_bytes(input));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer_lost) throw;
      throw Error(ErrorKind::input, error.what());  // the kind that the fuzzer expects of a parser
    }
  };
  for (const Bytes& seed : seeds) target.seeds.push_back(header_text(seed));
  target.dictionary = {std::string(4, '\0'), std::string(4, '\xff'), std::string("\x01\0\0\0", 4), std::string(8, '\x7f')};
  return target;
}

// Describes two edges into this process, one of which has slots that can be mapped, and one edge out of it.
Bytes some_edges() {
  Lane lane;
  lane.tensor.shape = {4, 16};
  lane.capacity = 256;
  const auto slot = std::make_shared<Slot>();
  slot->lanes = {lane, lane};
  EdgeReceiver two{.edge = 1, .from = 1, .slots = {slot, slot}, .arrived = {}};
  EdgeReceiver none{.edge = 2, .from = 1, .slots = {std::make_shared<Slot>()}, .arrived = {}};
  EdgeSender sender{.edge = 3, .to = 1, .devices = {nullptr}, .ranks = {0}, .credit = {}};
  return describe_edges({two, none}, {sender}, [](const Lane&) {
    return SharedMemoryName{.address = 4096, .bytes = 8192, .file = 7, .secret = 1234567};
  });
}

Bytes some_mirrors() {
  const SharedMemoryName name{.address = 4096, .bytes = 8192, .file = 7, .secret = 1234567};
  return to_bytes(std::vector{std::pair(0, name), std::pair(1, name)});
}

}  // namespace

std::vector<Target> ucx_targets() {
  UcxDataHeader data{.generation = 1,
                     .edge = 2,
                     .slot = 3,
                     .filling = 4,
                     .microbatch = 5,
                     .lane = 6,
                     .dtype = DType::bf16,
                     .shape = {},
                     .in_place = true};
  std::vector<Bytes> shapes;
  for (const Shape& shape : {Shape{7}, Shape{7, 8}, Shape{7, 8, 9}, Shape{0, 1, 2, 3}}) {
    data.shape = shape;
    shapes.push_back(to_bytes(data));
  }
  return {ucx_target("ucx-data", shapes, read_header<UcxDataHeader>),
          ucx_target("ucx-credit", {to_bytes(UcxCreditHeader{1, 2, 3})}, read_header<UcxCreditHeader>),
          ucx_target("ucx-group", {to_bytes(UcxGroupHeader{1, 2, 3, 4, UcxGroupHeader::Phase::gather, 5})},
                     read_header<UcxGroupHeader>),
          ucx_target("ucx-edges", {some_edges(), describe_edges({}, {})}, read_edges),
          ucx_target("ucx-mirrors", {some_mirrors()}, read_mirrors)};
}

}  // namespace pipetrain::fuzz
