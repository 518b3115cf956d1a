// A schedule such as auto searches for its plan, which takes long: a run does it once, whatever asks for the plan.
#include "apps/train/train.hpp"
#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

int searches = 0;

schedules::Plan counted_search(const schedules::ScheduleShape& shape) {
  ++searches;
  return schedules::build_auto(shape);
}

// Counts what build_schedule() searches for while it lives. The rows of the table are no constants themselves.
class CountedSearches {
 public:
  CountedSearches() : row_(const_cast<schedules::ScheduleInfo&>(*schedules::find_schedule("auto"))) {
    searches = 0;
    row_.build = counted_search;
  }
  CountedSearches(const CountedSearches&) = delete;
  CountedSearches& operator=(const CountedSearches&) = delete;
  ~CountedSearches() { row_.build = schedules::build_auto; }
  int count() const { return searches; }

 private:
  schedules::ScheduleInfo& row_;
};

int searches_of(std::vector<std::string> arguments) {
  const CountedSearches counted;
  for (const char* word :
       {"--schedule", "auto", "--pp", "2", "--device", "cpu", "--layers", "2", "--seq-len", "8", "--steps", "2"})
    arguments.emplace_back(word);
  CHECK(run_train(parse_train_options(arguments, {}, {0, 2})) == 0);
  return counted.count();
}

}  // namespace

TEST_CASE("a run searches for its plan once, with a report, a profile, ZeRO and post-validation, and so does a dry run") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  CHECK(searches_of({"--dp", "2", "--zero", "2", "--report", file("report.html"), "--profile", file("costs.json"), "--trace",
                     file("trace.json"), "--save", file("run")}) == 1);
  CHECK(searches_of({"--post-validation", "on", "--split", "0.1"}) == 1);
  CHECK(searches_of({"--dp", "2", "--zero", "2", "--dry-run"}) == 1);
}
