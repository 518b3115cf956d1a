#include "comm/ucx/ucx_process.hpp"

#include <ucs/debug/debug.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "comm/ucx/ucx_folder.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {
namespace {

std::timed_mutex& openings() {
  static auto& mutex = *new std::timed_mutex;  // outlives all threads
  return mutex;
}

}  // namespace

void print_no_ucx_stacks() noexcept {
  if (std::getenv("UCX_HANDLE_ERRORS") != nullptr || std::getenv("UCX_ERROR_SIGNALS") != nullptr) return;
  quiet_ucx();  // it warns of a signal that it does not handle
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ucs_debug_disable_signal(number);
}

void hold_ucx_openings() noexcept {
  (void)!openings().try_lock_for(std::chrono::seconds(2));
  remove_ucx_folder();
}

void remove_ucx_leftovers() noexcept { remove_ucx_leftovers(ucx_folders); }

std::unique_lock<std::timed_mutex> begin_ucx_opening() { return std::unique_lock(openings()); }

}  // namespace pipetrain
