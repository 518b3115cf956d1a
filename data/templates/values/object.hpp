// Object is a value with a state or with behaviour of its own: functions, macros, namespaces, iterators. Internal to data/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/templates/values/value.hpp"

namespace pipetrain::templates {

class Runtime;

// The arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Gives values one after the other.
class Iterator {
 public:
  virtual ~Iterator() = default;
  // Returns the next value; no value at the end and after it. Throws TemplateFault.
  virtual std::optional<Value> next() = 0;
};

class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual std::string type_name() const = 0;
  virtual std::string repr() const = 0;
  // Returns the result of len(); nothing for an object without a length.
  virtual std::optional<std::size_t> size() const { return std::nullopt; }
  virtual int depth() const { return 0; }
  // Returns no value if there is no such attribute.
  virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
  virtual bool is_callable() const { return false; }
  // Throws TemplateFault, always for an object that cannot be called.
  virtual Value call(Runtime& runtime, const Arguments& arguments);
  // Returns null for an object that cannot be iterated.
  virtual std::unique_ptr<Iterator> iterate() { return nullptr; }
};

// A function of C++ by its name in Python.
class Function : public Object {
 public:
  using Call = std::function<Value(Runtime&, const Arguments&)>;
  // depth: the depth of the values that the function holds.
  Function(std::string name, Call call, int depth = 0);
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr() const override;
  int depth() const override { return depth_; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override { return call_(runtime, arguments); }

 private:
  std::string name_;
  Call call_;
  int depth_;
};

// A generator of Python: it can be iterated once.
class Generator : public Object {
 public:
  using Next = std::function<std::optional<Value>()>;
  // `depth`: of the values that the function holds. Throws TemplateFault for too deep ones.
  Generator(Next next, int depth);
  std::string type_name() const override { return "generator"; }
  std::string repr() const override { return "<generator object>"; }
  int depth() const override { return depth_; }
  std::unique_ptr<Iterator> iterate() override;

 private:
  struct State {
    Next next;
    bool is_at_end = false;
  };
  std::shared_ptr<State> state_;  // which its iterators share
  int depth_;
};

// keys(), values() or items() of a dict.
class DictView : public Object {
 public:
  enum class Kind { keys, values, items };
  DictView(Dict dict, Kind kind) : dict_(std::move(dict)), kind_(kind) {}
  std::string type_name() const override;
  std::string repr() const override;
  std::optional<std::size_t> size() const override { return dict_.items->size(); }
  int depth() const override { return dict_.items->extent().depth + 1; }
  std::unique_ptr<Iterator> iterate() override;
  Values values() const;

 private:
  Dict dict_;
  Kind kind_;
};

// namespace(): its attributes can be set.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) override;
  // Throws TemplateFault where values would nest too deeply.
  void set(const std::string& name, const Value& value);
  void clear() { attributes_ = {}; }

 private:
  DictItems attributes_;
  mutable bool is_shown_ = false;  // guards against a namespace that holds itself
};

}  // namespace pipetrain::templates
