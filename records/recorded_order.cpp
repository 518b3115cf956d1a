#include "records/recorded_order.hpp"

#include "core/checksum.hpp"
#include "records/flight_record.hpp"
#include "schedules/record/replay.hpp"

namespace pipetrain {

std::shared_ptr<const schedules::RecordedOrder> read_recorded_order(const std::filesystem::path& file) {
  FlightRecordReader reader(file);
  const auto order = std::make_shared<schedules::RecordedOrder>();
  constexpr schedules::Action optimizer{schedules::ActionKind::optimizer, 0, -1};
  Checksum content;
  try {
    schedules::Replay replay(reader.head().run);
    const auto& run = replay.run();
    order->plan = run.plan;
    order->order = run.order;
    order->replicas = run.replicas;
    while (const auto step = reader.next()) {
      replay.load(*step);
      replay.play();
      if (step->failed || step->kind == schedules::StepKind::evaluation) continue;
      auto& lists = order->steps[step->step];
      lists.clear();
      content.add(static_cast<std::uint64_t>(step->step));
      for (int log = 0; log < run.logs(); log += run.parts) {  // all parts of a stage ran the same order
        auto& list = lists.emplace_back(replay.launched(log));
        // The recorded verdict was to skip it; this run's may be another.
        if (list.empty() || list.back().kind != optimizer.kind) list.push_back(optimizer);
        for (const schedules::Action& action : list)
          content.add(static_cast<std::uint64_t>(action.kind) << 48 | static_cast<std::uint64_t>(action.chunk) << 32 |
                      static_cast<std::uint32_t>(action.microbatch));
      }
    }
  } catch (const schedules::LogError& error) {
    reader.fail(error.what());
  } catch (const schedules::ReplayError& error) {
    reader.fail(error.what());
  }
  order->content = content.value();
  return order;
}

}  // namespace pipetrain
