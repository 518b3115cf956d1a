// The page of a report around its data. CMake makes it of the files in page/: write the begin, one JSON value in which no '<'
// occurs, and the end.
#pragma once

namespace pipetrain {

extern const char* const report_page_begin;
extern const char* const report_page_end;

}  // namespace pipetrain
