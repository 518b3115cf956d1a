#include "bindings/c/call.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "actors/engine/failure.hpp"
#include "actors/engine/run_failed.hpp"
#include "bindings/guest/callback_watch.hpp"
#include "bindings/guest/misuse.hpp"
#include "core/error.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain::c_api {

namespace {

struct LastError {
  std::string line;
  std::vector<std::string> waiting;
};
thread_local LastError last_error;
thread_local std::string callback_failure;

pipetrain_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::input:
      return PIPETRAIN_INPUT;
    case ErrorKind::out_of_memory:
      return PIPETRAIN_OUT_OF_MEMORY;
    case ErrorKind::numeric:
      return PIPETRAIN_NUMERIC;
    case ErrorKind::aborted:
      return PIPETRAIN_ABORTED;
    case ErrorKind::peer_lost:
      return PIPETRAIN_PEER_LOST;
    case ErrorKind::unavailable:
      return PIPETRAIN_UNAVAILABLE;
    case ErrorKind::internal:
      return PIPETRAIN_INTERNAL;
  }
  return PIPETRAIN_INTERNAL;
}

pipetrain_status keep(pipetrain_status status, std::string line, std::vector<std::string> waiting = {}) {
  last_error = {std::move(line), std::move(waiting)};
  return status;
}

pipetrain_status keep_thrown(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const RunFailed& error) {
    return keep(status_of(error.kind()), error.what(), error.waiting());
  } catch (const Misuse& error) {
    return keep(PIPETRAIN_MISUSE, error.what());
  } catch (const schedules::InvalidPlan& error) {
    return keep(PIPETRAIN_INPUT, error.fault());
  } catch (const schedules::PlanFileError& error) {
    return keep(PIPETRAIN_INPUT, error.what());
  } catch (const std::invalid_argument& error) {  // thrown by schedules/
    return keep(PIPETRAIN_INPUT, error.what());
  } catch (...) {
    const Failure failure = failure_of(cause);
    return keep(status_of(failure.kind), failure.text);
  }
}

}  // namespace

pipetrain_status report(std::exception_ptr cause) noexcept {
  try {
    return keep_thrown(cause);
  } catch (...) {  // no memory for the line
    last_error.line.clear();
    last_error.waiting.clear();
    return PIPETRAIN_OUT_OF_MEMORY;
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error(ErrorKind::input, std::string(name) + ": a null pointer; give one");
}

void check_callback(int code, const char* callback) {
  const std::string why = std::exchange(callback_failure, {});
  if (code == 0) return;
  throw Error(ErrorKind::internal,
              why.empty() ? std::string(callback) + " returned " + std::to_string(code) + " without pipetrain_fail()" : why);
}

void keep_callback_failure(const char* why) { callback_failure = why; }

void give_text(const std::string& text, char* out, std::size_t capacity, std::size_t* length) {
  require(length, "length");
  *length = text.size();
  if (capacity == 0) return;
  require(out, "text");
  if (capacity <= text.size())
    throw Error(ErrorKind::input, "capacity: " + std::to_string(capacity) + " bytes for a text of " +
                                      std::to_string(text.size()) + " and a final 0; give more");
  std::memcpy(out, text.c_str(), text.size() + 1);
}

}  // namespace pipetrain::c_api

using namespace pipetrain::c_api;

const char* pipetrain_version(void) { return PIPETRAIN_VERSION; }

const char* pipetrain_last_error(void) { return last_error.line.c_str(); }

const char* pipetrain_last_waiting(size_t index) {
  return index < last_error.waiting.size() ? last_error.waiting[index].c_str() : nullptr;
}

pipetrain_status pipetrain_fail(const char* why) {
  return guarded([&] {
    require(why, "why");
    if (!pipetrain::CallbackWatch::inside_call())
      throw pipetrain::Misuse("pipetrain_fail: called outside a callback; a compute fails with pipetrain_failed");
    keep_callback_failure(why);
  });
}
