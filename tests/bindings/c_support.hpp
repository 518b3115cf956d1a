// Helpers for tests of the C API: owners of its handles, and its structs with their size set.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>
#include <string>

namespace pipetrain::test {

template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof(Struct);
  return value;
}

struct FreeHandle {
  void operator()(pipetrain_plan* plan) const { pipetrain_plan_free(plan); }
  void operator()(pipetrain_timeline* timeline) const { pipetrain_timeline_free(timeline); }
  void operator()(pipetrain_pipeline* pipeline) const { pipetrain_pipeline_free(pipeline); }
};
template <class Handle>
using Owner = std::unique_ptr<Handle, FreeHandle>;
using PlanOwner = Owner<pipetrain_plan>;
using TimelineOwner = Owner<pipetrain_timeline>;
using PipelineOwner = Owner<pipetrain_pipeline>;

inline PlanOwner build_plan(const char* schedule, int stages, int microbatches, int chunks = 0) {
  auto request = sized<pipetrain_plan_request>();
  request.schedule = schedule;
  request.stages = stages;
  request.chunks = chunks;
  request.microbatches = microbatches;
  pipetrain_plan* plan = nullptr;
  pipetrain_plan_build(&request, &plan);
  return PlanOwner(plan);
}

inline PlanOwner parse_plan(const std::string& text, int format = PIPETRAIN_TEXT) {
  pipetrain_plan* plan = nullptr;
  pipetrain_plan_parse(text.data(), text.size(), format, "mine.txt", &plan);
  return PlanOwner(plan);
}

// Returns the text that a function gives in two calls: print(nullptr, 0, &length), print(text, capacity, &length).
template <class Print>
std::string text_of(Print print) {
  std::size_t length = 0;
  if (print(nullptr, 0, &length) != PIPETRAIN_OK) return {};
  std::string text(length + 1, '\0');
  if (print(text.data(), text.size(), &length) != PIPETRAIN_OK) return {};
  text.resize(length);
  return text;
}

inline bool error_has(const char* words) { return std::string(pipetrain_last_error()).find(words) != std::string::npos; }

}  // namespace pipetrain::test
