// The host thread that issues one device's work: jobs run in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pipetrain {

class Worker {
 public:
  explicit Worker(const std::string& name);
  // Runs the remaining jobs, then joins the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Never blocks. The job must not throw. Thread-safe.
  void post(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace pipetrain
