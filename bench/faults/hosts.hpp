// Simulated hosts for testing links: network namespaces of this host, joined by a bridge.
#pragma once

#include <string>

namespace pipetrain::bench {

// Needs root and ip(8).
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool made() const { return made_; }  // false if this host does not permit it
  std::string name(int host) const;    // the name of its namespace
  std::string address(int host) const;
  // Cuts or joins the wire of a host.
  void link(int host, bool up) const;
  // Limits what a host sends to this many megabits in a second. Returns false if this host does not permit it.
  bool limit(int host, int megabits) const;
  // Returns the bytes that a host has sent so far, with all headers.
  double sent(int host) const;

 private:
  int count_;
  std::string prefix_;
  bool made_ = false;
};

}  // namespace pipetrain::bench
