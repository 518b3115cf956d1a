// The file of --record: all that every stage of a run received and decided, for `pipetrain replay`.
//
// It begins with the 16 bytes "pipetrain record", a version (uint32), and a part that describes the run: title, plan as
// text, order, slots. A part for every step with the logs of its stages (schedules/record/log_codec.hpp) follows, and a
// last part that marks the end of a finished run. Where a run continues with other processes, a part before the steps of
// each further membership says which stages they run; steps that are repeated there have the same numbers. A part is its kind
// (one byte), the length of its contents (uint32), their checksum (uint64, core/checksum.hpp) and the contents; numbers are
// little-endian. A file that ends after a whole part is of a run that was killed, and can be replayed up to there.
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
  std::string title;  // as of the run's timeline: "1f1b, pp 4, tp 1, dp 1, 16 microbatches"
  schedules::RecordedRun run;
};

// Return the bytes of a file's parts, to be written in this order: the head with the bytes before it, any steps and
// memberships, the end. The first two throw Error(input) about the setting record for a run of more stages and microbatches
// than the reader accepts.
std::string flight_record_head(const FlightRecordHead& head);
std::string flight_record_membership(const FlightRecordHead& head);
std::string flight_record_step(const schedules::RecordedStep& step);
std::string flight_record_end();

// Returns the length of the file up to the end of its last whole step, after which another process may continue it; 0 where
// it is no record or its head is not whole.
std::uint64_t whole_steps_end(const std::filesystem::path& file);

// Reads a file front to back, a part at a time, and trusts none of its bytes. Errors are Error(input) with the file,
// the offset of the damage, and the last step that is whole. Not thread-safe.
class FlightRecordReader {
 public:
  explicit FlightRecordReader(const std::filesystem::path& file);

  // Returns the head of the membership whose step was read last; of the first one before that.
  const FlightRecordHead& head() const { return head_; }
  // Returns the next step; nothing at the end of the file.
  std::optional<schedules::RecordedStep> next();
  // Returns true if the run finished; known once next() has returned nothing.
  bool ended() const { return ended_; }
  std::uint64_t offset() const { return part_; }  // of the part that was read last
  std::uint64_t end() const { return at_; }       // of that part

  // Throws the error for a step whose part is whole but whose contents are wrong.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Part {
    char kind = 0;
    std::string_view contents;  // until the next take()
  };

  std::string_view take(std::uint64_t bytes, const char* what);  // valid until the next one
  std::optional<Part> read_part();
  void read_head();
  void read_membership(std::string_view contents);
  FlightRecordHead read_run(std::string_view contents, bool further) const;

  InputFile file_;
  std::string window_;  // bytes of the file from window_at_ on
  std::uint64_t window_at_ = 0;
  FlightRecordHead head_;
  std::uint64_t at_ = 0, part_ = 0;
  std::optional<std::int64_t> last_step_;
  bool ended_ = false;
};

}  // namespace pipetrain
