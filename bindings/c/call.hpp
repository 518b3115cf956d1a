// The frame of every function of the C API: converts exceptions into a status and the line of pipetrain_last_error().
#pragma once

#include <pipetrain/pipetrain.h>

#include <exception>
#include <string>

namespace pipetrain::c_api {

// Keeps the error for this thread, and returns its status. Never throws.
pipetrain_status report(std::exception_ptr cause) noexcept;

template <class Work>
pipetrain_status guarded(Work work) noexcept {
  try {
    work();
    return PIPETRAIN_OK;
  } catch (...) {
    return report(std::current_exception());
  }
}

// Throws Error(input): "NAME: null; ...".
void require(const void* pointer, const char* name);

// Throws for a callback that returned another `code` than 0: Error with the text of pipetrain_fail().
void check_callback(int code, const char* callback);
void keep_callback_failure(const char* why);

// Copies the text to the caller's memory, as pipetrain_plan_print() promises.
void give_text(const std::string& text, char* out, std::size_t capacity, std::size_t* length);

}  // namespace pipetrain::c_api
