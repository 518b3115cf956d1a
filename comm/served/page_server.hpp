// Shows a page whose data change to browsers on this host, by HTTP.
//
//   GET /?token=TOKEN                  the page, with the newest data in it
//   GET /data?token=TOKEN&after=N      the data alone once their number, which the header Data-Number has, is not N;
//                                      204 after 20 s without new ones
//
// The token may also be in the header `Authorization: Bearer TOKEN`. A wrong one is answered with 403.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace pipetrain {

class PageServer {
 public:
  struct Settings {
    int port = 0;               // 0: any that is free
    std::string token;          // not empty
    std::string begin, end;     // the page around its data
    std::string data = "null";  // before the first publish()
  };
  // Listens on 127.0.0.1 alone. Throws Error(unavailable) if the port is in use.
  explicit PageServer(Settings settings);
  // Ends at once, or after at most 1 s if a browser that looked at the page has not got the newest data yet.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  // Returns true if a browser has asked for the page in the last 30 s. Thread-safe.
  bool is_watched() const;
  // Hands new data to all who wait for them. Never waits for a browser. Thread-safe.
  void publish(std::string data);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Returns the address of the page; a token that is empty is left out.
std::string page_address(int port, std::string_view token);

}  // namespace pipetrain
