#include "apps/train/served_report.hpp"

#include "comm/control/token.hpp"
#include "records/page_texts.hpp"

namespace pipetrain {

std::optional<std::string> ServedReport::begin(const TrainOptions& options) {
  if (!options.serve || server_) return std::nullopt;
  const bool known = options.processes.token_from_file;
  const std::string token = known ? options.processes.token : control::random_token();
  server_ = std::make_unique<PageServer>(PageServer::Settings{*options.serve, token, report_page_begin, report_page_end});
  return "the report is at " + (known ? page_address(server_->port(), "") + "?token=TOKEN, with the token of --token-file"
                                      : page_address(server_->port(), token));
}

}  // namespace pipetrain
