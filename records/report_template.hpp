// The fixed parts of the report page, before and after its data. Internal to records/.
#pragma once

namespace pipetrain {

extern const char* const report_begin;
extern const char* const report_end;

}  // namespace pipetrain
