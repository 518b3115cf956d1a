#include "comm/control/frame.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace pipetrain::control {
namespace {

constexpr std::uint32_t magic = 0x63'74'70'8e;  // no text, so that other protocols are recognized at once

[[noreturn]] void refuse_frame(const std::string& what) { throw Error(ErrorKind::peer_lost, "it sent " + what); }

}  // namespace

std::array<std::byte, header_bytes> header_of(const Frame& frame) {
  assert(frame.payload.size() <= most_frame_bytes);
  WireWriter writer;
  writer.number(magic);
  writer.number(frame.version);
  writer.number(frame.kind);
  writer.number(frame.channel);
  writer.number(frame.from);
  writer.number(frame.to);
  writer.number(static_cast<std::uint32_t>(frame.payload.size()));
  std::array<std::byte, header_bytes> header{};
  assert(writer.data().size() == header.size());
  std::copy(writer.data().begin(), writer.data().end(), header.begin());
  return header;
}

std::span<std::byte> FrameReader::space() {
  direct_ = partial_ && begin_ == end_;
  if (direct_) return std::span(partial_->payload).subspan(filled_);
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return std::span(buffer_).subspan(end_);
}

void FrameReader::received(std::size_t bytes) { (direct_ ? filled_ : end_) += bytes; }

std::optional<Frame> FrameReader::next() {
  if (!partial_) {
    if (end_ - begin_ < header_bytes) return std::nullopt;
    begin_frame();
  }
  Bytes& payload = partial_->payload;
  const std::size_t part = std::min(payload.size() - filled_, end_ - begin_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), part,
              payload.begin() + static_cast<std::ptrdiff_t>(filled_));
  begin_ += part;
  filled_ += part;
  if (filled_ < payload.size()) return std::nullopt;
  return std::exchange(partial_, std::nullopt);
}

void FrameReader::clear() {
  partial_.reset();
  begin_ = end_ = 0;
}

void FrameReader::begin_frame() {
  WireReader reader(std::span<const std::byte>(buffer_).subspan(begin_, header_bytes));
  begin_ += header_bytes;
  if (reader.number<std::uint32_t>() != magic) refuse_frame("bytes that are no message of pipetrain");
  Frame frame;
  frame.version = reader.number<std::uint16_t>();
  if (version_ && frame.version != *version_) refuse_frame("a message of another version");
  const auto kind = reader.number<std::uint8_t>(), channel = reader.number<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(FrameKind::last)) refuse_frame("a message of an unknown kind");
  if (channel > static_cast<std::uint8_t>(Channel::run)) refuse_frame("a message for an unknown channel");
  frame.kind = static_cast<FrameKind>(kind);
  frame.channel = static_cast<Channel>(channel);
  frame.from = reader.number<std::uint16_t>();
  frame.to = reader.number<std::uint16_t>();
  const std::size_t length = reader.number<std::uint32_t>();
  if (length > most_payload_)
    refuse_frame("a message of " + std::to_string(length) + " bytes, where at most " + std::to_string(most_payload_) +
                 " are allowed");
  frame.payload.resize(length);
  partial_ = std::move(frame);
  filled_ = 0;
}

}  // namespace pipetrain::control
