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

/// The names of the dialect's discardable attributes, which HeddleDialect.td
/// describes. Any other name with the prefix "heddle." is an error.
inline constexpr llvm::StringLiteral kShardingAttrName = "heddle.sharding";
inline constexpr llvm::StringLiteral kFactorsAttrName = "heddle.factors";
inline constexpr llvm::StringLiteral kPinAttrName = "heddle.pin";
inline constexpr llvm::StringLiteral kPriorityAttrName = "heddle.priority";
inline constexpr llvm::StringLiteral kCarriedAttrName = "heddle.carried";
inline constexpr llvm::StringLiteral kNameAttrName = "heddle.name";
inline constexpr llvm::StringLiteral kRoleAttrName = "heddle.role";
inline constexpr llvm::StringLiteral kRanksAttrName = "heddle.ranks";
inline constexpr llvm::StringLiteral kGroupAttrName = "heddle.group";
inline constexpr llvm::StringLiteral kStageAttrName = "heddle.stage";
inline constexpr llvm::StringLiteral kPipelineAttrName = "heddle.pipeline";
inline constexpr llvm::StringLiteral kStageProgramAttrName =
    "heddle.stage_program";
inline constexpr llvm::StringLiteral kServesAttrName = "heddle.serves";
inline constexpr llvm::StringLiteral kSplitAttrName = "heddle.split";
inline constexpr llvm::StringLiteral kStorageAxesAttrName =
    "heddle.storage_axes";
inline constexpr llvm::StringLiteral kGlobalTypeAttrName = "heddle.global_type";
inline constexpr llvm::StringLiteral kModelAttrName = "heddle.model";
inline constexpr llvm::StringLiteral kWeightsAttrName = "heddle.weights";
inline constexpr llvm::StringLiteral kConfigAttrName = "heddle.config";
inline constexpr llvm::StringLiteral kMicroBatchesAttrName =
    "heddle.micro_batches";
inline constexpr llvm::StringLiteral kSubBatchesAttrName = "heddle.sub_batches";
inline constexpr llvm::StringLiteral kHierarchyAttrName = "heddle.hierarchy";
inline constexpr llvm::StringLiteral kReduceGradientsAttrName =
    "heddle.reduce_gradients";
/// The GPU that kernels are made for, such as "sm_80". Without it, kernels are
/// made for CPUs.
inline constexpr llvm::StringLiteral kTargetGpuAttrName = "heddle.target_gpu";
inline constexpr llvm::StringLiteral kPhaseAttrName = "heddle.phase";
inline constexpr llvm::StringLiteral kPlanAttrName = "heddle.plan";
/// The fingerprint of the executable program that was lowered to LLVM.
inline constexpr llvm::StringLiteral kProgramHashAttrName =
    "heddle.program_hash";
inline constexpr llvm::StringLiteral kKernelAttrName = "heddle.kernel";
inline constexpr llvm::StringLiteral kRowDimsAttrName = "heddle.row_dims";
inline constexpr llvm::StringLiteral kBlocksAttrName = "heddle.blocks";
inline constexpr llvm::StringLiteral kGrainAttrName = "heddle.grain";
inline constexpr llvm::StringLiteral kInplaceAttrName = "heddle.inplace";

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_HEDDLEDIALECT_H
