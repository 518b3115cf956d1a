// A queue of items for a handler.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace pipetrain::control {

// Hands items to a handler in order; keeps them while there is none. Used on one thread only.
template <class Item>
class Mailbox {
 public:
  using Handler = std::function<void(Item&)>;

  // An empty handler removes the present one.
  void set_handler(Handler handler) { handler_ = handler ? std::make_shared<Handler>(std::move(handler)) : nullptr; }
  void put(Item item) { kept_.push_back(std::move(item)); }

  // Calls the handler for all items. Items that a call adds are handled after the call has returned.
  void drain() {
    if (std::exchange(draining_, true)) return;
    while (handler_ && !kept_.empty()) {
      Item item = std::move(kept_.front());
      kept_.pop_front();
      const auto handler = handler_;  // it may remove itself
      (*handler)(item);
    }
    draining_ = false;
  }

 private:
  std::shared_ptr<Handler> handler_;
  std::deque<Item> kept_;
  bool draining_ = false;
};

}  // namespace pipetrain::control
