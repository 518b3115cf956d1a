// The fixed parts of the report page: what comes before its data, and what comes after. Internal to records/.
#pragma once

namespace pipetrain {

extern const char* const report_begin;
extern const char* const report_end;

}  // namespace pipetrain
