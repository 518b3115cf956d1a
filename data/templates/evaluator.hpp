// Evaluator walks the syntax tree of a template and writes the text. Internal to data/.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/templates/expression_evaluator.hpp"
#include "data/templates/rendered_text.hpp"
#include "data/templates/scope.hpp"
#include "data/templates/syntax/ast.hpp"
#include "data/templates/values/object.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

using Variables = std::map<std::string, Value, std::less<>>;

// Semantics of jinja2's ImmutableSandboxedEnvironment. Of one rendering; the tree and the variables must outlive it.
class Evaluator {
 public:
  Evaluator(Runtime& runtime, const Variables& variables);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Throws TemplateFault with the line.
  Rendering run(const Block& body);

  // For objects that evaluate parts of the tree when they are called.
  struct FunctionBody {
    const std::string* name;
    const Signature* signature;
    const Block* body;
  };
  Value call_macro(const FunctionBody& function, const std::shared_ptr<Scope>& scope, const Arguments& arguments);
  Value run_loop_again(const For& loop, const std::shared_ptr<Scope>& scope, const Value& values, int depth);

 private:
  enum class Flow { next, leave_loop, next_round };

  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow perform(const Data& node);
  Flow perform(const Output& node);
  Flow perform(const If& node);
  Flow perform(const For& node);
  Flow perform(const LoopControl& node);
  Flow perform(const Assignment& node);
  Flow perform(const BlockAssignment& node);
  Flow perform(const With& node);
  Flow perform(const MacroDefinition& node);
  Flow perform(const CallBlock& node);
  Flow perform(const FilterBlock& node);
  Flow perform(const Generation& node);

  void run_loop(const For& node, const Value& values, int depth);
  std::unique_ptr<Iterator> chosen_values(const For& node, const Value& values);

  void assign(const Target& target, const Value& value);
  Value evaluate(const Expression& expression) { return expressions_.evaluate(expression); }
  Value make_macro(const std::string& name, const Signature& signature, const Block& body);
  // Runs in a scope within this one.
  template <class Run>
  auto in_scope(const std::shared_ptr<Scope>& parent, const Run& run);

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  ExpressionEvaluator expressions_;
  std::vector<std::shared_ptr<Scope>> shared_scopes_;  // macros hold them and lie in them: emptied at the end
  RenderedText out_;
};

}  // namespace pipetrain::templates
