#include "apps/launch/end_report_page.hpp"

#include <ostream>
#include <string>
#include <vector>

#include "apps/options/option_layers.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/output/output_target.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "records/report_page.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t longest_page = std::size_t{4} << 20;

// Returns null if another run already writes the page.
std::unique_ptr<OutputLock> lock_page(const OutputTarget& target) {
  std::vector<std::string> no_locks;  // reported when the run began
  try {
    return OutputLock::of_file("report", target, no_locks);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void end_report_page(const std::filesystem::path& report, std::int64_t since, const LaunchCause& cause) {
  const bool stopped = cause.line.empty();
  const std::string text = stopped ? "by " + stop_signal_name() : cause.line;
  try {
    const OutputTarget target = output_target("report", report);
    std::error_code none;
    if (target.is_stream() || !std::filesystem::exists(target.file, none)) return;
    const auto lock = lock_page(target);
    if (!lock) return;
    const auto page =
        with_end(read_text(target.file, longest_page), since, stopped ? RunState::stopped : RunState::failed, text);
    if (!page) return;
    OutputFiles files;
    files.add("report", report, [&](std::ostream& out) { out << *page; });
    files.put_in_place();
  } catch (const Error& error) {
    print_note(error_line(error));
  }
}

}  // namespace pipetrain
