// The arguments of all operations, for files that declare kernels of many: these need no Ops, whose changes would compile every
// kernel again.
#pragma once

#include "ops/arguments/activations.hpp"
#include "ops/arguments/arenas.hpp"
#include "ops/arguments/attention.hpp"
#include "ops/arguments/embedding.hpp"
#include "ops/arguments/experts.hpp"
#include "ops/arguments/latent_attention.hpp"
#include "ops/arguments/losses.hpp"
#include "ops/arguments/matrices.hpp"
#include "ops/arguments/norms.hpp"
#include "ops/arguments/positions.hpp"
#include "ops/arguments/quantised.hpp"
#include "ops/eight_bit.hpp"
#include "ops/segment_shape.hpp"
#include "ops/settle_moments.hpp"
#include "ops/tensor_update.hpp"
#include "ops/update.hpp"
