// The page of one timeline around its data. CMake makes it of the files in page/: write the begin, one JSON value in which no
// '<' occurs, and the end.
#pragma once

namespace pipetrain {

extern const char* const timeline_page_begin;
extern const char* const timeline_page_end;

}  // namespace pipetrain
