#include "records/comparison_page.hpp"

#include <ostream>

#include "records/page_texts.hpp"
#include "records/report_json.hpp"

namespace pipetrain {

void write_comparison(std::ostream& out, const ComparisonPage& page) {
  Json figures = Json::array();
  for (const auto& row : page.figures) figures.push_back(row);
  Json data = Json::object({{"compared", true},
                            {"title", "comparison of runs"},
                            {"runs", page.runs},
                            {"marks", Json::array()},
                            {"figures", std::move(figures)},
                            {"findings", page.findings}});
  data["charts"] = page_json(page.charts);
  out << report_page_begin << script_text(data) << report_page_end;
}

}  // namespace pipetrain
