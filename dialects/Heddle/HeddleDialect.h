//===- HeddleDialect.h - Dialect, enums and attributes ----------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_HEDDLEDIALECT_H
#define HEDDLE_DIALECTS_HEDDLE_HEDDLEDIALECT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/Heddle/HeddleDialect.h.inc"

#include "dialects/Heddle/HeddleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Heddle/HeddleAttrs.h.inc"

namespace heddle {

/// Discardable attributes; see the dialect's description.
inline constexpr llvm::StringLiteral kShardingAttrName = "heddle.sharding";
inline constexpr llvm::StringLiteral kNameAttrName = "heddle.name";
inline constexpr llvm::StringLiteral kFactorsAttrName = "heddle.factors";
inline constexpr llvm::StringLiteral kSplitAttrName = "heddle.split";
inline constexpr llvm::StringLiteral kModelAttrName = "heddle.model";
inline constexpr llvm::StringLiteral kWeightsAttrName = "heddle.weights";
inline constexpr llvm::StringLiteral kConfigAttrName = "heddle.config";

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_HEDDLEDIALECT_H
