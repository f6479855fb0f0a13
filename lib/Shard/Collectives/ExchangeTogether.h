//===- ExchangeTogether.h - One collective for several tensors --*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_COLLECTIVES_EXCHANGETOGETHER_H
#define HEDDLE_LIB_SHARD_COLLECTIVES_EXCHANGETOGETHER_H

#include "mlir/IR/Builders.h"

namespace heddle {

/// Writes one collective in place of several, which are all all_reduce, all
/// reduce_scatter or all all_gather, of the same axes, element type and kind of
/// reduction. Tensors of equal type that are all-reduced are stacked. All other
/// tensors are flattened and joined. With P members, a gather of n elements in
/// all gives P rows of n, where each tensor is a range of columns; a scatter
/// takes such rows. Equal tensors are sent once.
///
/// Returns the results, in the order of `collectives`, which stay as they are.
llvm::SmallVector<mlir::Value>
exchangeTogether(mlir::OpBuilder &builder,
                 llvm::ArrayRef<mlir::Operation *> collectives);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_COLLECTIVES_EXCHANGETOGETHER_H
