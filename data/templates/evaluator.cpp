#include "data/templates/evaluator.hpp"

#include <fmt/format.h>

#include "data/templates/functions/globals.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/macro.hpp"
#include "data/templates/macro_parameters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

const std::string caller_name = caller_parameter;

}  // namespace

Evaluator::Evaluator(Runtime& runtime, const Variables& variables)
    : runtime_(runtime), scope_(std::make_shared<Scope>(nullptr)), expressions_(runtime, scope_), out_(runtime) {
  for (const auto& [name, value] : template_globals()) scope_->set(name, value);
  for (const auto& [name, value] : variables) scope_->set(name, value);
  scope_ = std::make_shared<Scope>(scope_);
}

Evaluator::~Evaluator() {
  for (const auto& scope : shared_scopes_) scope->clear();
}

Rendering Evaluator::run(const Block& body) {
  try {
    execute(body);
  } catch (TemplateFault& fault) {
    if (fault.line == 0) fault.line = expressions_.line();
    throw;
  }
  return out_.take();
}

template <class Run>
auto Evaluator::in_scope(const std::shared_ptr<Scope>& parent, const Run& run) {
  struct Restore {
    std::shared_ptr<Scope>& place;
    std::shared_ptr<Scope> outer;
    ~Restore() { place = std::move(outer); }
  };
  const Restore restore{scope_, scope_};
  scope_ = std::make_shared<Scope>(parent);
  return run();
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  for (const Statement& statement : block)
    if (const Flow flow = execute(statement); flow != Flow::next) return flow;
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  const Level level(runtime_);
  runtime_.charge_step();
  expressions_.set_line(statement.line);
  return std::visit([this](const auto& node) { return perform(node); }, statement.node);
}

Evaluator::Flow Evaluator::perform(const Data& node) {
  out_.write(node.text);
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const Output& node) {
  out_.write(printed(evaluate(node.value)));
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const If& node) {
  for (const Branch& branch : node.branches)
    if (truth(evaluate(branch.condition))) return execute(branch.body);
  return execute(node.otherwise);
}

Evaluator::Flow Evaluator::perform(const LoopControl& node) { return node.is_break ? Flow::leave_loop : Flow::next_round; }

Evaluator::Flow Evaluator::perform(const For& node) {
  run_loop(node, evaluate(node.values), 0);
  return Flow::next;
}

// The values for which the condition of the loop holds.
std::unique_ptr<Iterator> Evaluator::chosen_values(const For& node, const Value& values) {
  return iterator_of([this, &node, scope = scope_, iterator = std::shared_ptr(iterate(values))]() -> std::optional<Value> {
    while (auto value = iterator->next()) {
      runtime_.charge_step();
      const bool holds = in_scope(scope, [&] {
        assign(node.target, *value);
        return truth(evaluate(*node.condition));
      });
      if (holds) return value;
    }
    return std::nullopt;
  });
}

void Evaluator::run_loop(const For& node, const Value& values, int depth) {
  const std::shared_ptr<Scope> scope = scope_;
  LoopState::Again again;
  if (node.is_recursive)
    again = [this, &node, scope](const Value& inner, int level) { return run_loop_again(node, scope, inner, level); };
  LoopState::Source source;
  source.keeps = values;
  source.iterator = node.condition ? chosen_values(node, values) : iterate(values);
  if (!node.condition) source.size = length_of(values);
  runtime_.charge_bytes(sizeof(LoopState));
  const auto loop = std::make_shared<LoopState>(std::move(source), depth, std::move(again));
  bool any = false;
  while (const auto value = loop->advance()) {
    any = true;
    runtime_.charge_step();
    const Flow flow = in_scope(scope, [&] {
      scope_->set("loop", ObjectPointer(loop));
      assign(node.target, *value);
      return execute(node.body);
    });
    if (flow == Flow::leave_loop) break;
  }
  if (!any) in_scope(scope, [&] { return execute(node.otherwise); });
}

Value Evaluator::run_loop_again(const For& loop, const std::shared_ptr<Scope>& scope, const Value& values, int depth) {
  const Level level(runtime_);
  return out_.captured([&] { in_scope(scope, [&] { run_loop(loop, values, depth); }); });
}

Evaluator::Flow Evaluator::perform(const Assignment& node) {
  assign(node.target, evaluate(node.value));
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const BlockAssignment& node) {
  Flow flow = Flow::next;
  std::string text = out_.captured([&] { flow = in_scope(scope_, [&] { return execute(node.body); }); });
  if (flow != Flow::next) return flow;
  assign(node.target, node.filter ? expressions_.filtered_block(*node.filter, std::move(text)) : Value(std::move(text)));
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const With& node) {
  Values values;
  for (const auto& [target, value] : node.values) values.push_back(evaluate(value));
  return in_scope(scope_, [&] {
    for (std::size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i]);
    return execute(node.body);
  });
}

Evaluator::Flow Evaluator::perform(const MacroDefinition& node) {
  scope_->set(node.name, make_macro(node.name, node.signature, node.body));
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const CallBlock& node) {
  const Call& called = std::get<Call>(node.call.node);
  const Value callee = evaluate(*called.callee);
  Arguments arguments = expressions_.arguments_of(called.arguments);
  arguments.named.emplace_back(caller_name, make_macro(caller_name, node.signature, node.body));
  expressions_.set_line(node.call.line);
  out_.write(printed(expressions_.call(callee, arguments)));
  return Flow::next;
}

Evaluator::Flow Evaluator::perform(const FilterBlock& node) {
  Flow flow = Flow::next;
  std::string text = out_.captured([&] { flow = in_scope(scope_, [&] { return execute(node.body); }); });
  if (flow != Flow::next) return flow;
  const Value result = expressions_.filtered_block(node.filter, std::move(text));
  if (result.text() == nullptr) fail(fmt::format("a filter block writes text, not '{}'", type_name(result)));
  out_.write(*result.text());
  return flow;
}

Evaluator::Flow Evaluator::perform(const Generation& node) {
  out_.mark_generation([&] { in_scope(scope_, [&] { return execute(node.body); }); });
  return Flow::next;
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const Values parts = values_of(runtime_, value);
    if (parts.size() != target.parts.size())
      fail(fmt::format("{} values cannot be unpacked into {} names", parts.size(), target.parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
    return;
  }
  if (target.attribute.empty()) return scope_->set(target.name, value);
  const Value* const found = scope_->find(target.name);
  auto* const space = found == nullptr ? nullptr : dynamic_cast<Namespace*>(found->object());
  if (space == nullptr) fail("cannot assign attribute on non-namespace object");
  space->set(target.attribute, value);
}

Value Evaluator::make_macro(const std::string& name, const Signature& signature, const Block& body) {
  runtime_.charge_bytes(sizeof(Macro));
  if (shared_scopes_.empty() || shared_scopes_.back() != scope_) shared_scopes_.push_back(scope_);
  return ObjectPointer(std::make_shared<Macro>(*this, FunctionBody{&name, &signature, &body}, scope_));
}

Value Evaluator::call_macro(const FunctionBody& function, const std::shared_ptr<Scope>& scope, const Arguments& arguments) {
  const Level level(runtime_);
  return out_.captured([&] {
    in_scope(scope, [&] {
      bind_parameters({*function.name, *function.signature, arguments}, *scope_, expressions_);
      return execute(*function.body);
    });
  });
}

}  // namespace pipetrain::templates
