// Encodes and decodes messages whose types name their fields once, in the order of their bytes:
//
//   struct Loss {
//     int process = 0;
//     std::string why;
//     static void wire_fields(auto& wire, auto& loss) { wire(loss.process, loss.why); }
//   };
//
// Fields are numbers, flags, texts, bytes, shapes, other such messages, and lists, pairs, maps and optional ones of them. An
// enumerator is written and checked by wire.choice(value, last). What must hold besides, a reader checks where Wire::reads is
// true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "core/wire.hpp"

namespace pipetrain {

class WireFieldWriter {
 public:
  static constexpr bool reads = false;
  explicit WireFieldWriter(WireWriter& to) : out_(to) {}

  void operator()(const auto&... values) { (put(values), ...); }
  template <class Enum>
  void choice(Enum value, Enum) {
    out_.number(value);
  }

 private:
  WireWriter& out_;

  void put(bool value) { out_.flag(value); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void put(Number value) { out_.number(value); }
  void put(const std::string& value) { out_.text(value); }
  void put(const Bytes& value) { out_.bytes(value); }
  void put(const Shape& shape) {
    out_.number(static_cast<std::uint8_t>(shape.rank()));
    for (int axis = 0; axis < shape.rank(); ++axis) out_.number(shape[axis]);
  }
  template <class First, class Second>
  void put(const std::pair<First, Second>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <class Element>
  void put(const std::vector<Element>& list) {
    out_.list(list, [this](const Element& element) { put(element); });
  }
  template <class Key, class Value>
  void put(const std::map<Key, Value>& map) {
    out_.list(map, [this](const auto& entry) { put(entry); });
  }
  template <class Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class Message>
  requires std::is_class_v<Message>
  void put(const Message& message) { Message::wire_fields(*this, message); }
};

// Throws Error(peer_lost) as WireReader does. Allocates elements of a list only as far as their bytes are there.
class WireFieldReader {
 public:
  static constexpr bool reads = true;
  explicit WireFieldReader(WireReader& from) : in_(from) {}

  void operator()(auto&... values) { (take(values), ...); }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    value = in_.choice(last);
  }

 private:
  WireReader& in_;

  void take(bool& value) { value = in_.flag(); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void take(Number& value) { value = in_.number<Number>(); }
  void take(std::string& value) { value = in_.text(); }
  void take(Bytes& value) {
    const auto bytes = in_.bytes();
    value.assign(bytes.begin(), bytes.end());
  }
  void take(Shape& shape);
  template <class First, class Second>
  void take(std::pair<First, Second>& pair) {
    (*this)(pair.first, pair.second);
  }
  template <class Element>
  void take(std::vector<Element>& list) {
    list.clear();
    for (std::size_t left = in_.count(1); left > 0; --left) take(list.emplace_back());
  }
  template <class Key, class Value>
  void take(std::map<Key, Value>& map) {
    for (std::size_t left = in_.count(1); left > 0; --left) {
      Key key{};
      take(key);
      take(map[key]);
    }
  }
  template <class Value>
  void take(std::optional<Value>& value) {
    value.reset();
    if (in_.flag()) take(value.emplace());
  }
  template <class Message>
  requires std::is_class_v<Message>
  void take(Message& message) { Message::wire_fields(*this, message); }
};

// --- Whole messages, and messages inside others ---

template <class Message>
void write_message(WireWriter& out, const Message& message) {
  WireFieldWriter writer(out);
  writer(message);
}
template <class Message>
Message read_message(WireReader& in) {
  Message message{};
  WireFieldReader reader(in);
  reader(message);
  return message;
}

template <class Message>
Bytes to_bytes(const Message& message) {
  WireWriter out;
  write_message(out, message);
  return std::move(out).data();
}
// Throws Error(peer_lost) for bytes that are not exactly one such message.
template <class Message>
Message read_message(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  Message message = read_message<Message>(in);
  in.end();
  return message;
}

}  // namespace pipetrain
