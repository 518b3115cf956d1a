// Reports the numbers of `bench gpu`: JSON lines and tables.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/row_run.hpp"
#include "bench/result.hpp"

namespace pipetrain::bench {

struct Number {
  std::string name;
  double value = 0;
  std::string unit;
  Limit kind = Limit::none;
  double limit = 0;
};

// Returns all numbers of the row, the promised ones with their limits.
std::vector<Number> numbers_of(const RowResult& result);

// Returns true if the schedules' simulated times are in the order of the measured ones; pairs whose measured times are
// within half a percent of each other may be in either order. With from_split_run it compares only schedules that have
// that time, by that time.
bool ranked_right(const std::vector<ScheduleResult>& schedules, bool from_split_run = false);

// Each table is for people, and has a line for every row that has its values.
std::string throughput_table(const std::vector<RowResult>& results);
std::string shares_table(const std::vector<RowResult>& results);
std::string schedules_table(const std::vector<RowResult>& results);
std::string limit_table(const std::vector<RowResult>& results);
std::string scaling_table(const std::vector<RowResult>& results);

// Returns all tables, the one of throughput last; the other, as a page for bench/results, with the machine and the failures.
std::string all_tables(const std::vector<RowResult>& results);
std::string results_page(const std::vector<RowResult>& results, const std::string& machine, const std::string& command);

}  // namespace pipetrain::bench
