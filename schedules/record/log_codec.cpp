#include "schedules/record/log_codec.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain::schedules {

namespace {

using Type = StageEvent::Type;
using std::chrono::nanoseconds;

// Opcodes up to 9 are a StageEvent::Type, followed by its operands; then come the codes of predicted events, and from
// `short_launch` on those of launches of low-numbered chunks.
constexpr int foreseen_enqueued = 10, foreseen_completed = 11, times_follow = 12, no_times = 13, signalled_code = 14;
constexpr int short_launch = 16, short_kinds = 9, launch_chunks = 12;  // all kinds but custom, which are never predicted
constexpr int short_input = short_launch + short_kinds * launch_chunks, input_kinds = 3, input_chunks = 20;
constexpr int short_credit = short_input + input_kinds * input_chunks, credit_kinds = 2, credit_chunks = 32;
static_assert(short_credit + credit_kinds * credit_chunks <= 256);
constexpr std::int64_t most_time = std::int64_t{1} << 60;

// The meaning of an opcode from short_launch on, without the microbatch.
struct ShortEvent {
  Type type = Type::credit;
  InputKind input = InputKind::activation;
  ActionKind kind = ActionKind::forward;
  std::int16_t chunk = 0;
};
constexpr auto short_events = [] {
  std::array<ShortEvent, 256> all{};
  for (int code = short_launch; code < 256; ++code) {
    ShortEvent& one = all[static_cast<std::size_t>(code)];
    if (code < short_input) {
      const int at = code - short_launch;
      one = {Type::launched, {}, static_cast<ActionKind>(at % short_kinds), static_cast<std::int16_t>(at / short_kinds)};
    } else if (code < short_credit) {
      const int at = code - short_input;
      one = {Type::input, static_cast<InputKind>(at % input_kinds), {}, static_cast<std::int16_t>(at / input_kinds)};
    } else {
      const int at = code - short_credit;
      one = {Type::credit, static_cast<InputKind>(at % credit_kinds), {}, static_cast<std::int16_t>(at / credit_kinds)};
    }
  }
  return all;
}();

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}
std::int64_t ns_of(StageLogWriter::Time time) {
  return std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

// --- prediction ---

LogForecast::LogForecast(int chunks, int microbatches)
    : microbatches_(std::max(1, microbatches)),
      inputs_(3 * static_cast<std::size_t>(chunks)),
      launches_(static_cast<std::size_t>(chunks)) {}

void LogForecast::begin_step() {
  for (auto& chunk : launches_) chunk = {};
  not_enqueued_.clear();
  running_.clear();
}

bool OpenActions::take(const Action& action) {
  if (!empty() && oldest() == action) return take_oldest(), true;
  const auto found = std::find(actions_.begin() + static_cast<std::ptrdiff_t>(first_), actions_.end(), action);
  if (found == actions_.end()) return false;
  actions_.erase(found);
  return true;
}

// --- writing ---

void StageLogWriter::varint(std::uint64_t value) {
  for (; value >= 128; value >>= 7) byte(static_cast<int>(value & 127) | 128);
  byte(static_cast<int>(value));
}

void StageLogWriter::message(int opcode, Time now) {
  if (bytes_.empty()) base_ = now, tick_ = 0;
  byte(opcode);
  const std::int64_t tick = std::max(tick_, nanoseconds(now - base_).count() / log_tick_ns);
  varint(static_cast<std::uint64_t>(tick - tick_));
  tick_ = tick;
}

void StageLogWriter::put_action(const Action& action) {
  byte(static_cast<int>(action.kind));
  varint(static_cast<std::uint64_t>(action.chunk));
  varint(static_cast<std::uint64_t>(action.microbatch + 1));
}

void StageLogWriter::begin(StepKind kind, Time now) {
  put(kind == StepKind::training ? Type::begin_training : Type::begin_evaluation, now);
  forecast_.begin_step();
}

void StageLogWriter::input(InputKind kind, int chunk, int microbatch, Time now) {
  const bool foreseen = chunk < input_chunks && microbatch == forecast_.next_input(kind, chunk);
  forecast_.input(kind, chunk, microbatch);
  if (foreseen) return message(short_input + input_kinds * chunk + static_cast<int>(kind), now);
  put(Type::input, now);
  byte(static_cast<int>(kind));
  varint(static_cast<std::uint64_t>(chunk));
  varint(static_cast<std::uint64_t>(microbatch));
}

void StageLogWriter::credit(InputKind kind, int chunk, Time now) {
  if (chunk < credit_chunks) return message(short_credit + credit_kinds * chunk + static_cast<int>(kind), now);
  put(Type::credit, now);
  byte(static_cast<int>(kind));
  varint(static_cast<std::uint64_t>(chunk));
}

void StageLogWriter::launched(const Action& action) {
  const bool foreseen = action.chunk < launch_chunks && action.microbatch == forecast_.next_launch(action.kind, action.chunk);
  forecast_.launched(action);
  if (foreseen) return byte(short_launch + short_kinds * action.chunk + static_cast<int>(action.kind));
  byte(static_cast<int>(Type::launched));
  put_action(action);
}

void StageLogWriter::put_open(Type type, const Action& action, Time now) {
  OpenActions& open = forecast_.open(type);
  const bool foreseen = !open.empty() && open.oldest() == action;
  open.take(action);
  if (foreseen) return message(type == Type::enqueued ? foreseen_enqueued : foreseen_completed, now);
  put(type, now);
  put_action(action);
}

void StageLogWriter::signalled(int custom, Time now) {
  message(signalled_code, now);
  varint(static_cast<std::uint64_t>(custom));
}

StageLog StageLogWriter::take(const std::vector<LoggedAction>& actions) {
  if (bytes_.empty()) return {};
  const bool measured = std::any_of(actions.begin(), actions.end(), [](const LoggedAction& one) { return one.end != 0; });
  byte(measured ? times_follow : no_times);
  std::int64_t end = ns_of(base_);
  for (const LoggedAction& one : actions) {
    if (!measured) break;
    varint(zigzag(one.start - end));
    varint(zigzag(one.end - one.start));
    end = one.end;
  }
  return {base_, std::exchange(bytes_, {})};
}

// --- reading ---

// A position in a log, and the time there. Each read() has its own, which then stays in registers.
class StageLogReader::Cursor {
 public:
  Cursor(std::int64_t base_ns, std::string_view bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()), time_(base_ns) {}

  bool at_end() const { return at_ == end_; }
  std::int64_t time() const { return time_; }  // of the last message
  int byte() {
    if (at_ == end_) fail("ends in the middle of an event");
    return static_cast<unsigned char>(*at_++);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const int next = byte();
      value |= static_cast<std::uint64_t>(next & 127) << shift;
      if (next < 128) return value;
    }
    fail("has a number that is too large");
  }
  std::int64_t message_time() {
    const std::uint64_t ticks = varint();
    if (ticks > static_cast<std::uint64_t>(most_time / log_tick_ns)) fail("has a time out of range");
    time_ += static_cast<std::int64_t>(ticks) * log_tick_ns;
    if (time_ > most_time) fail("has a time out of range");
    return time_;
  }
  [[noreturn, gnu::noinline]] void fail(const char* what) const {
    throw LogError(static_cast<std::size_t>(at_ - begin_), what);
  }

 private:
  const char *begin_, *at_, *end_;
  std::int64_t time_;
};

inline void StageLogReader::check(const Cursor& in, const Action& action) const {
  const int numbers = has_microbatch(action.kind) ? microbatches_ : is_custom(action.kind) ? customs_ : 0;
  const bool fits = action.chunk >= 0 && action.chunk < chunks_ && action.microbatch < numbers &&
                    (numbers > 0 ? action.microbatch >= 0 : action.microbatch == -1);
  if (!fits) in.fail("has an action that is not in the plan");
}

void StageLogReader::read_action(Cursor& in, Action& action) {
  const int kind = in.byte();
  const std::uint64_t chunk = in.varint(), microbatch = in.varint();
  if (kind >= action_kinds || chunk >= static_cast<std::uint64_t>(chunks_) ||
      microbatch > static_cast<std::uint64_t>(std::max(microbatches_, customs_)))
    in.fail("has an action that is not in the plan");
  action = {static_cast<ActionKind>(kind), static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(microbatch) - 1};
  check(in, action);
}

// Finds the action of an enqueued or completed event among the open ones.
inline void StageLogReader::close(Cursor& in, StageEvent& event, bool foreseen) {
  OpenActions& open = forecast_.open(event.type);
  if (foreseen) {
    if (open.empty()) in.fail("ends an action, but none was launched");
    event.action = open.oldest();
    open.take_oldest();
  } else {
    read_action(in, event.action);
    if (!open.take(event.action)) in.fail("ends an action that was not launched");
  }
}

// Reads an event whose opcode names chunk and kind.
inline void StageLogReader::read_short(Cursor& in, int opcode, StageEvent& event) {
  const ShortEvent& code = short_events[static_cast<std::size_t>(opcode)];
  if (code.chunk >= chunks_) in.fail("has a chunk that is not in the plan");
  event.type = code.type;
  event.input = code.input;
  event.action.kind = code.kind;
  event.action.chunk = code.chunk;
  if (code.type == Type::launched) {
    event.action.microbatch = forecast_.next_launch(code.kind, code.chunk);
    event.time = in.time();
    check(in, event.action);
  } else {
    event.time = in.message_time();
    event.action.microbatch = code.type == Type::input ? forecast_.next_input(code.input, code.chunk) : -1;
  }
}

// Reads an event whose opcode is its type, followed by the rest.
void StageLogReader::read_long(Cursor& in, int opcode, StageEvent& event) {
  event.type = static_cast<Type>(opcode);
  event.time = in.time();
  if (event.type != Type::launched) event.time = in.message_time();
  if (event.type == Type::input || event.type == Type::credit) {
    const int kind = in.byte();
    if (kind >= (event.type == Type::input ? input_kinds : credit_kinds)) in.fail("has an input of an unknown kind");
    const std::uint64_t chunk = in.varint(), microbatch = event.type == Type::input ? in.varint() : 0;
    if (chunk >= static_cast<std::uint64_t>(chunks_) || microbatch >= static_cast<std::uint64_t>(microbatches_))
      in.fail("has an input that is not in the plan");
    event.input = static_cast<InputKind>(kind);
    event.action.chunk = static_cast<std::int16_t>(chunk);
    event.action.microbatch = static_cast<std::int32_t>(microbatch);
  }
  if (event.type == Type::launched) read_action(in, event.action);
  if (event.type == Type::enqueued || event.type == Type::completed) close(in, event, false);
}

void StageLogReader::read_signal(Cursor& in, StageEvent& event) {
  event.type = Type::signalled;
  event.time = in.message_time();
  const std::uint64_t custom = in.varint();
  if (custom >= static_cast<std::uint64_t>(customs_)) in.fail("has a custom action that is not in the plan");
  event.action = {ActionKind::custom, 0, static_cast<std::int32_t>(custom)};
}

inline void StageLogReader::read_event(Cursor& in, int opcode, StageEvent& event) {
  if (opcode >= short_launch) return read_short(in, opcode, event);
  if (opcode == foreseen_enqueued || opcode == foreseen_completed) {
    event.type = opcode == foreseen_enqueued ? Type::enqueued : Type::completed;
    event.time = in.message_time();
    return close(in, event, true);
  }
  if (opcode == signalled_code) return read_signal(in, event);
  if (opcode > static_cast<int>(Type::completed)) in.fail("has an event of an unknown kind");
  read_long(in, opcode, event);
}

void StageLogReader::read_times(Cursor& in, std::int64_t base_ns, LogEvents& out) {
  std::int64_t end = base_ns;
  const auto distance = [&] {
    const std::uint64_t value = in.varint();
    if (value > static_cast<std::uint64_t>(most_time)) in.fail("has a time out of range");
    return unzigzag(value);
  };
  for (LoggedAction& one : out.actions) {
    one.start = end + distance();
    one.end = end = one.start + distance();
    if (end > 2 * most_time || end < -2 * most_time) in.fail("has a time out of range");
  }
}

void StageLogReader::read(std::int64_t base_ns, std::string_view bytes, LogEvents& out) {
  Cursor in(base_ns, bytes);
  out.events.clear();
  out.actions.clear();
  if (bytes.empty()) return;
  if (base_ns < 0 || base_ns > most_time / 2) in.fail("has a time out of range");
  for (;;) {
    const int opcode = in.byte();
    if (opcode == times_follow || opcode == no_times) {
      if (opcode == times_follow) read_times(in, base_ns, out);
      break;
    }
    StageEvent& next = out.events.emplace_back();  // read in place, because copying it at once would stall
    read_event(in, opcode, next);
    if (next.type == Type::begin_training || next.type == Type::begin_evaluation) forecast_.begin_step();
    if (next.type == Type::input) forecast_.input(next.input, next.action.chunk, next.action.microbatch);
    if (next.type == Type::launched) forecast_.launched(next.action);
    if (next.type == Type::completed) out.actions.push_back({next.action, 0, 0});
  }
  if (!in.at_end()) in.fail("has bytes after its end");
}

}  // namespace pipetrain::schedules
