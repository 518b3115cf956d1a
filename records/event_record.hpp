// Encodes event records for TensorBoard by hand: three small messages of protobuf's wire format, which never changes.
// That saves a dependency on libprotobuf, its compiler and TensorFlow's .proto files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

struct Scalar {
  std::string tag;   // "loss"
  double value = 0;  // written as a float, as TensorBoard keeps scalars
};

// Returns the bytes of one record: length (u64, little-endian), its checksum, data, its checksum. The checksum is
// CRC-32C (Castagnoli, RFC 3720), rotated right by 15 bits plus 0xa282ead8: TensorFlow's format of record files.
std::string framed_record(std::string_view data);

// Protobuf's Event of tensorflow/core/util/event.proto. wall_time: seconds since 1970.
std::string version_event(double wall_time);  // "brain.Event:2"; must be a file's first
// Tells readers to forget steps from this one on that they read before: SessionLog START, as readers of version 2
// understand it.
std::string start_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);

}  // namespace pipetrain
