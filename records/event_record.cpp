#include "records/event_record.hpp"

#include <bit>
#include <boost/crc.hpp>

namespace pipetrain {

namespace {

// Field numbers of Event, SessionLog, Summary and Summary.Value.
enum EventField { wall_time_field = 1, step_field = 2, file_version_field = 3, summary_field = 5, session_log_field = 7 };
constexpr int session_status_field = 1, summary_value_field = 1, value_tag_field = 1, value_simple_field = 2;
constexpr std::uint64_t session_start = 1;

enum WireType { varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof value; ++byte) out += static_cast<char>(value >> (8 * byte));
}

void put_key(std::string& out, int field, WireType type) { put_varint(out, static_cast<std::uint64_t>(field) << 3 | type); }

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, bytes_type);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time) {
  std::string event;
  put_key(event, wall_time_field, fixed64_type);
  put_fixed(event, std::bit_cast<std::uint64_t>(wall_time));
  return event;
}

std::string event_at(double wall_time, std::int64_t step) {
  std::string event = event_at(wall_time);
  put_key(event, step_field, varint_type);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

std::uint32_t masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8u;
}

}  // namespace

std::string framed_record(std::string_view data) {
  std::string record;
  put_fixed(record, std::uint64_t{data.size()});
  put_fixed(record, masked_checksum(record));
  record += data;
  put_fixed(record, masked_checksum(data));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, file_version_field, "brain.Event:2");
  return event;
}

std::string start_event(double wall_time, std::int64_t step) {
  std::string session;
  put_key(session, session_status_field, varint_type);
  put_varint(session, session_start);
  std::string event = event_at(wall_time, step);
  put_bytes(event, session_log_field, session);
  return event;
}

std::string scalars_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, value_tag_field, scalar.tag);
    put_key(value, value_simple_field, fixed32_type);
    put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, summary_value_field, value);
  }
  std::string event = event_at(wall_time, step);
  put_bytes(event, summary_field, summary);
  return event;
}

}  // namespace pipetrain
