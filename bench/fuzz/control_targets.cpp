#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bench/fuzz/target.hpp"
#include "comm/control/exchange_board.hpp"
#include "comm/control/frame.hpp"
#include "comm/control/handshake.hpp"
#include "core/error.hpp"

namespace pipetrain::fuzz {
namespace {

using control::Frame;
using control::FrameKind;

void expect_same_frame(const Bytes& written, const Bytes& read) {
  if (written != read) throw std::logic_error("a message changed when it was read and written again");
}

// Reads the payload as the process does that receives a frame of this kind.
void read_payload(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::hello:
      return expect_same_frame(to_bytes(read_message<control::Hello>(frame.payload)), frame.payload);
    case FrameKind::refused: {
      const control::Refusal refusal = read_message<control::Refusal>(frame.payload);
      if (std::string(to_error(refusal).what()).find('\n') != std::string::npos)
        throw std::logic_error("a refusal of two lines");
      return expect_same_frame(to_bytes(refusal), frame.payload);
    }
    case FrameKind::welcome:
      return expect_same_frame(to_bytes(read_message<std::vector<ProcessInfo>>(frame.payload)), frame.payload);
    case FrameKind::exchange:
      return expect_same_frame(to_bytes(read_message<control::ExchangePart>(frame.payload)), frame.payload);
    case FrameKind::lost:
      return expect_same_frame(to_bytes(read_message<control::Loss>(frame.payload)), frame.payload);
    default:
      return;
  }
}

void read_connection(std::string_view input) {
  control::FrameReader reader(control::most_frame_bytes);
  try {
    while (!input.empty()) {
      const auto space = reader.space();
      // Parts as a network delivers them.
      const std::size_t part = std::min({space.size(), input.size(), std::size_t{1000}});
      std::memcpy(space.data(), input.data(), part);
      input.remove_prefix(part);
      reader.received(part);
      while (const auto frame = reader.next()) read_payload(*frame);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_lost) throw;
    throw Error(ErrorKind::input, error.what());  // the kind that the fuzzer expects of a parser
  }
}

std::string frame_text(const Frame& frame) {
  const auto header = control::header_of(frame);
  std::string text(reinterpret_cast<const char*>(header.data()), header.size());
  if (!frame.payload.empty()) text.append(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
  return text;
}

// Half of the inputs get a matching length, so that the payload is parsed.
std::string with_frame_length(Random& random, std::string text) {
  constexpr std::size_t place = control::header_bytes - sizeof(std::uint32_t);
  if (text.size() < control::header_bytes || random.one_in(2)) return text;
  const auto length = static_cast<std::uint32_t>(text.size() - control::header_bytes);
  std::memcpy(text.data() + place, &length, sizeof length);
  return text;
}

}  // namespace

std::vector<Target> control_targets() {
  Target target{"control", {}, {}, read_connection, with_frame_length};
  control::Hello hello;
  hello.info.process = 1;
  hello.info.host = "b";
  hello.info.label = "ranks 2-3, stage 1";
  hello.processes = 2;
  hello.program = "0.1.0";
  hello.settings = {{"seed", "1"}, {"model", "tiny"}};
  const control::ExchangePart part{1, "edges", Bytes(40)};
  const control::Refusal refusal{ErrorKind::input, {"seed", "1"}, "process 0 has '2'"};
  const std::vector<Frame> frames = {
      {.kind = FrameKind::hello, .payload = to_bytes(hello)},
      {.kind = FrameKind::refused, .payload = to_bytes(refusal)},
      {.kind = FrameKind::welcome, .payload = to_bytes(std::vector{hello.info, hello.info})},
      {.kind = FrameKind::exchange, .from = 1, .payload = to_bytes(part)},
      {.kind = FrameKind::lost, .payload = to_bytes(control::Loss{1, "it ended"})},
      {.kind = FrameKind::message, .channel = Channel::run, .from = 1, .payload = Bytes(100)},
  };
  std::string all;
  for (const Frame& frame : frames) {
    target.seeds.push_back(frame_text(frame));
    all += target.seeds.back();
  }
  target.seeds.push_back(all);
  target.dictionary = {std::string(4, '\0'), std::string(4, '\xff'), std::string("\x01\0\0\0", 4), "seed",
                       frame_text(frames.back())};
  return {target};
}

}  // namespace pipetrain::fuzz
