#include "core/thread_limit.hpp"

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace pipetrain {

void check_threads(int count) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  try {
    while (std::ssize(threads) < count) {
      threads.emplace_back([&end] {
        std::free(std::malloc(1024));  // makes the C library reserve an arena for the thread, as in the program's threads
        end.wait(false);
      });
    }
  } catch (const std::system_error&) {  // the thread cannot be started: reported below
  } catch (const std::bad_alloc&) {     // there is no memory for it
  }
  end = true;
  end.notify_all();
  for (auto& thread : threads) thread.join();
  if (std::ssize(threads) < count) {
    throw Error(ErrorKind::unavailable, "the host: only " + std::to_string(threads.size()) + " of the run's " +
                                            std::to_string(count) +
                                            " threads can be started; raise ulimit -u or -v, or use fewer devices");
  }
}

}  // namespace pipetrain
