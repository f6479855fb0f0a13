//===- PhasePipelines.h - The passes of each phase --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PIPELINES_PHASEPIPELINES_H
#define HEDDLE_LIB_PIPELINES_PHASEPIPELINES_H

#include "heddle/Pipelines/Pipelines.h"

namespace heddle {

/// The memory within which programs are ordered.
struct ProgramMemory {
  bool isAmple = false; ///< the order has no limit
  /// Bytes of a device that live tensors may not take.
  int64_t reserve = 0;
};

// Each function adds the passes that lead to the phase in its name from the
// phase before it. Pipelines.cpp says why each pass stands where it stands.

void buildAutodiffPipeline(mlir::OpPassManager &passes,
                           const TrainingOptions &options);
void buildShardPipeline(mlir::OpPassManager &passes,
                        const CompileOptions &options);
void buildLocalizePipeline(mlir::OpPassManager &passes,
                           const CompileOptions &options,
                           const NamedSchedule &schedule);
void buildKernelPipeline(mlir::OpPassManager &passes);
void buildSchedulePipeline(mlir::OpPassManager &passes,
                           const CompileOptions &options,
                           const NamedSchedule &schedule,
                           ProgramMemory memory = {});
void buildExecutablePipeline(mlir::OpPassManager &passes);
void buildLLVMPipeline(mlir::OpPassManager &passes);
void buildGpuPipeline(mlir::OpPassManager &passes,
                      const CompileOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_PIPELINES_PHASEPIPELINES_H
