#include "data/tokenizers/transforms/metaspace.hpp"

#include <algorithm>

#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void apply(Pieces& pieces) const override {
    pieces.replace_each([&](std::string_view text, bool first, const auto& put) {
      const std::string_view replaced = replace(text, first, pieces.arena());
      if (!split_) return put(replaced);
      // The last of several consecutive replacements starts a word; each of the others is a word.
      std::size_t begin = 0;
      for (std::size_t at = replaced.find(replacement_, 1); at != std::string_view::npos;
           at = replaced.find(replacement_, at + replacement_.size())) {
        put(replaced.substr(begin, at - begin));
        begin = at;
      }
      put(replaced.substr(begin));
    });
  }

 private:
  std::string_view replace(std::string_view text, bool first, TextArena& arena) const {
    const bool begins = text.starts_with(' ') || text.starts_with(replacement_);
    const bool prepends = !begins && (scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && first));
    const std::size_t spaces = static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + (prepends ? 1 : 0);
    if (spaces == 0) return text;
    char* const start = arena.begin(text.size() + spaces * replacement_.size());
    char* out = start;
    const auto put = [&](std::string_view part) { out = std::copy(part.begin(), part.end(), out); };
    if (prepends) put(replacement_);
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t space = std::min(text.find(' ', at), text.size());
      put(text.substr(at, space - at));
      if (space < text.size()) put(replacement_);
      at = space + 1;
    }
    return arena.take(static_cast<std::size_t>(out - start));
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

PrependScheme prepend_scheme(const Component& component) {
  if (component.find("prepend_scheme") == nullptr)
    return component.flag("add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  const std::string scheme = component.text("prepend_scheme");
  if (scheme == "always") return PrependScheme::always;
  if (scheme == "first") return PrependScheme::first;
  if (scheme == "never") return PrependScheme::never;
  component.fail("\"prepend_scheme\" is not always, first or never");
}

std::unique_ptr<PreTokenizer> make_metaspace(const Component& component) {
  return std::make_unique<Metaspace>(to_utf8(component.character("replacement")), prepend_scheme(component),
                                     component.flag("split", true));
}

}  // namespace pipetrain
