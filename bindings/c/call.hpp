// The frame of every function of the C API: exceptions become a status, and the line that pipetrain_last_error() gives.
#pragma once

#include <pipetrain/pipetrain.h>

#include <exception>
#include <string>

namespace pipetrain::c_api {

// Keeps the error for this thread, and gives its status. Never throws.
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

// What a callback that returned `code` failed with: nothing for 0, else Error with the text of pipetrain_fail().
void check_callback(int code, const char* callback);
void keep_callback_failure(const char* why);

// As pipetrain_plan_print() says.
void give_text(const std::string& text, char* out, std::size_t capacity, std::size_t* length);

}  // namespace pipetrain::c_api
