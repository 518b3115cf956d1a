// Shows a person the progress of a run: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pipetrain {

struct StepProgress {
  std::int64_t step = 0, total = 0;        // counts from 1; total 0: unknown
  std::optional<double> loss;              // nothing if no label counts
  std::optional<double> mtp_loss;          // of a further prediction
  std::optional<double> margin, accuracy;  // of rewards, for a loss of preferences; accuracy 0 to 1
  double lr = 0;
  std::optional<double> grad_norm;   // nothing if it overflowed
  std::optional<double> loss_scale;  // nothing if the loss is not scaled
  double tokens_per_second = 0;
  std::optional<double> bubble;       // 0 to 1
  std::optional<double> input_wait;   // 0 to 1: the share of the step spent waiting for data
  std::optional<double> eta_seconds;  // time to the last step
  std::optional<double> tflops_per_device;
  std::optional<double> mfu;                 // 0 to 1
  std::optional<std::int64_t> memory_bytes;  // of the fullest device
  bool skipped = false;
};

// "step 12/100  loss 4.5321  grad norm 1.234  lr 3.00e-04  12,345 tokens/s  bubble 12.3 %  input 0.1 %  ETA 1:02:03  401.2
// TFLOP/s MFU 40.6 %  memory 71.3 GiB  loss scale 65536"; TFLOP/s and memory are of one device
std::string plain_line(const StepProgress& progress);
// Returns the line with a bar before it, in at most `width` columns. If it does not fit, it is without the bar, then
// with shorter words, then without the last fields.
std::string bar_line(const StepProgress& progress, int width);

std::string format_duration(double seconds);       // "0:05", "12:34", "1:02:03"
std::string format_bytes(std::int64_t bytes);      // "3.1 GiB", "12.5 MiB"
std::string format_thousands(std::int64_t value);  // "12,345"

// Not thread-safe.
class Progress {
 public:
  using Write = std::function<void(std::string_view)>;

  struct Style {
    bool terminal = false;
    bool color = false;
    std::function<int()> width = [] { return 80; };  // called each time, because windows change their size
    std::int64_t log_interval = 1;                   // plain lines: the first step, every N-th and the last
  };
  // Makes one that prints to stderr. A terminal that calls itself dumb counts as none; NO_COLOR (not empty) turns colour off.
  static Progress on_stderr(std::int64_t log_interval);

  Progress(Write write, Style style) : write_(std::move(write)), style_(std::move(style)) {}
  ~Progress() { finish(); }  // so that the line of an error does not follow the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepProgress& progress);
  // Prints a line of its own, above the bar. `text` has no line end.
  void note(std::string_view text);
  // Leaves the last state of the bar on the screen. Call it before anything else writes to the terminal.
  void finish();

 private:
  void draw();
  void erase();

  Write write_;
  Style style_;
  std::optional<StepProgress> last_;
  bool drawn_ = false;
};

}  // namespace pipetrain
