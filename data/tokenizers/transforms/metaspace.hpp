// The pre-tokenizer Metaspace, which writes spaces as characters of their own. Internal to data/.
#pragma once

#include <memory>

#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/text/pieces.hpp"

namespace pipetrain {

// Says when the replacement is put before a piece that does not begin with it.
enum class PrependScheme { always, first, never };
// Reads "prepend_scheme", or "add_prefix_space" of older files.
PrependScheme prepend_scheme(const Component& component);

std::unique_ptr<PreTokenizer> make_metaspace(const Component& component);

}  // namespace pipetrain
