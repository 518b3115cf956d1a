// RenderedText takes the text that a template writes. Internal to data/.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "data/templates/rendering.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

// Holds the text of one rendering. Throws TemplateFault for more text than the runtime's limits allow.
class RenderedText {
 public:
  explicit RenderedText(Runtime& runtime) : runtime_(runtime), out_(&rendering_.text) {}
  RenderedText(const RenderedText&) = delete;
  RenderedText& operator=(const RenderedText&) = delete;

  void write(std::string_view text) {
    *out_ += text;
    runtime_.check_output(out_->size());
  }
  // Returns the text that `write_block` writes, which is not added to the rendering.
  std::string captured(const std::function<void()>& write_block) {
    struct Restore {
      std::string*& out;
      std::string* outer;
      ~Restore() { out = outer; }
    };
    std::string text;
    const Restore restore{out_, out_};
    out_ = &text;
    write_block();
    runtime_.charge_bytes(text.size());
    return text;
  }
  // Marks the text that `write_block` writes as a generation.
  void mark_generation(const std::function<void()>& write_block) {
    const std::size_t begin = out_->size();
    write_block();
    if (out_ == &rendering_.text) {
      rendering_.generations.push_back({begin, out_->size()});
    } else {
      rendering_.has_hidden_generation = true;
    }
  }
  Rendering take() { return std::move(rendering_); }

 private:
  Runtime& runtime_;
  Rendering rendering_;
  std::string* out_;  // rendering_.text, or the text of the innermost captured()
};

}  // namespace pipetrain::templates
