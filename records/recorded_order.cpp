#include "records/recorded_order.hpp"

#include "core/checksum.hpp"
#include "records/replayed_record.hpp"

namespace pipetrain {
namespace {

std::uint64_t content_of(const schedules::RecordedOrder& order) {
  Checksum content;
  for (const auto& [step, lists] : order.steps) {
    content.add(static_cast<std::uint64_t>(step));
    for (const auto& list : lists)
      for (const schedules::Action& action : list)
        content.add(static_cast<std::uint64_t>(action.kind) << 48 | static_cast<std::uint64_t>(action.chunk) << 32 |
                    static_cast<std::uint32_t>(action.microbatch));
  }
  return content.value();
}

}  // namespace

std::shared_ptr<const schedules::RecordedOrder> read_recorded_order(const std::filesystem::path& file) {
  ReplayedRecord record(file);
  const auto order = std::make_shared<schedules::RecordedOrder>();
  order->plan = record.run().plan;
  order->order = record.run().order;
  order->replicas = record.run().replicas;
  constexpr schedules::Action optimizer{schedules::ActionKind::optimizer, 0, -1};
  try {
    while (const auto step = record.next()) {
      record.replay().play();
      if (step->failed || step->kind == schedules::StepKind::evaluation) continue;
      auto& lists = order->steps[step->step];  // a repeated step replaces the one before
      lists.clear();
      for (int log = 0; log < record.run().logs(); log += record.run().parts) {  // all parts of a stage ran the same order
        auto& list = lists.emplace_back(record.replay().launched(log));
        // The recorded verdict was to skip it; this run's may be another.
        if (list.empty() || list.back().kind != optimizer.kind) list.push_back(optimizer);
      }
    }
  } catch (const schedules::LogError& error) {
    record.reader().fail(error.what());
  } catch (const schedules::ReplayError& error) {
    record.reader().fail(error.what());
  }
  order->content = content_of(*order);
  return order;
}

}  // namespace pipetrain
