// The file of --record: what every stage of a run received and decided, for `pipetrain replay`.
//
// It begins with the 16 bytes "pipetrain record", a version (uint32), and a part with what ran: title, plan as text, order,
// slots. Then follows a part for every step with the logs of its stages (schedules/record/log_codec.hpp), and one that ends the
// file of a run that came to its end. A part is its kind (one byte), the length of its contents (uint32), their checksum
// (uint64, core/checksum.hpp) and the contents; numbers are little-endian. A file that ends behind a whole part is of a run
// that was killed, and can be replayed so far.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "files/file_io.hpp"
#include "schedules/record/recording.hpp"

namespace pipetrain {

struct FlightRecordHead {
  std::string title;  // of the run's timeline: "1f1b, pp 4, tp 1, dp 1, 16 microbatches"
  schedules::RecordedRun run;
};

// The bytes of a file's parts, to be written in this order: the head with what stands before it, any steps, the end. The head
// throws Error(input) about the setting record for a run of more stages and microbatches than the reader takes.
std::string flight_record_head(const FlightRecordHead& head);
std::string flight_record_step(const schedules::RecordedStep& step);
std::string flight_record_end();

// Reads a file front to back, a part at a time; it trusts none of its bytes. Errors are Error(input) with the file, the offset
// of the damage, and up to which step the file is whole. Not thread-safe.
class FlightRecordReader {
 public:
  explicit FlightRecordReader(const std::filesystem::path& file);

  const FlightRecordHead& head() const { return head_; }
  // The next step; nothing at the end of the file.
  std::optional<schedules::RecordedStep> next();
  // Whether the run came to its end; known once next() gave nothing.
  bool ended() const { return ended_; }
  std::uint64_t offset() const { return part_; }  // of the part that was read last

  // Throws the error for a step whose part is whole and whose contents cannot be.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Part {
    char kind = 0;
    std::string_view contents;  // until the next take()
  };

  std::string_view take(std::uint64_t bytes, const char* what);  // until the next one
  std::optional<Part> read_part();
  void read_head();

  InputFile file_;
  std::string window_;  // bytes of the file from window_at_ on
  std::uint64_t window_at_ = 0;
  FlightRecordHead head_;
  std::uint64_t at_ = 0, part_ = 0;
  std::optional<std::int64_t> last_step_;
  bool ended_ = false;
};

}  // namespace pipetrain
