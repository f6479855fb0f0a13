/*===- Heddle.h - Heddle from C -----------------------------------*- C -*-===*\
|*                                                                            *|
|* The partitioner and the compiler as a C API, beside MLIR's own             *|
|* (mlir-c/IR.h, which libHeddle exports, too). Errors are diagnostics of the *|
|* context: attach a handler (mlir-c/Diagnostics.h) to see their text. The    *|
|* functions keep no pointer to a string that they are given. Example:        *|
|* examples/embed/embed.c.                                                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef HEDDLE_C_HEDDLE_H
#define HEDDLE_C_HEDDLE_H

#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/*===----------------------------------------------------------------------===*\
|* Registration                                                               *|
\*===----------------------------------------------------------------------===*/

/* Adds Heddle's dialects, the upstream dialects and every interface that Heddle
 * attaches to them, and loads them all. */
MLIR_CAPI_EXPORTED void heddleRegisterDialects(MlirContext context);

/* Registers Heddle's passes and pipelines and the upstream passes, for the
 * whole process (mlirParsePassPipeline, mlir-c/Pass.h). May be called again. */
MLIR_CAPI_EXPORTED void heddleRegisterPasses(void);

/*===----------------------------------------------------------------------===*\
|* Attributes                                                                 *|
\*===----------------------------------------------------------------------===*/

/* Returns a mesh such as #heddle.mesh<["dp"=2, "tp"=4]>. `names` and `sizes`
 * have numAxes entries each; the last axis is the fastest. Returns the null
 * attribute, with a diagnostic, if a name is empty or occurs twice, if a size
 * is not positive, or if there are more than 65536 devices. */
MLIR_CAPI_EXPORTED MlirAttribute heddleMeshAttrGet(MlirContext context,
                                                   intptr_t numAxes,
                                                   const MlirStringRef *names,
                                                   const int64_t *sizes);
MLIR_CAPI_EXPORTED bool heddleAttributeIsAMesh(MlirAttribute attribute);
MLIR_CAPI_EXPORTED int64_t heddleMeshAttrGetNumDevices(MlirAttribute mesh);

/* Returns a sharding such as #heddle.sharding<@mesh, [{"dp"}, {}, {"tp"}]>.
 * Dimension i is split by numAxes[i] axes, major to minor. `axes` lists the
 * axes of all dimensions one after the other: in the example, numAxes is {1,
 * 0, 1} and axes is {"dp", "tp"}. `mesh` is the symbol of a heddle.mesh.
 * Returns the null attribute, with a diagnostic, if an axis occurs twice. */
MLIR_CAPI_EXPORTED MlirAttribute heddleShardingAttrGet(
    MlirContext context, MlirStringRef mesh, intptr_t rank,
    const intptr_t *numAxes, const MlirStringRef *axes);
MLIR_CAPI_EXPORTED bool heddleAttributeIsASharding(MlirAttribute attribute);
MLIR_CAPI_EXPORTED intptr_t heddleShardingAttrGetRank(MlirAttribute sharding);
MLIR_CAPI_EXPORTED intptr_t
heddleShardingAttrGetNumAxes(MlirAttribute sharding, intptr_t dimension);
MLIR_CAPI_EXPORTED MlirStringRef heddleShardingAttrGetAxis(
    MlirAttribute sharding, intptr_t dimension, intptr_t index);
/* Returns the type of one device's part: each dimension is divided by the
 * number of devices that split it, and rounded up. Returns the null type if
 * the ranks of type and sharding differ, or if the mesh lacks an axis of the
 * sharding. */
MLIR_CAPI_EXPORTED MlirType heddleShardingAttrGetLocalType(
    MlirAttribute sharding, MlirAttribute mesh, MlirType globalType);

/* Declares `heddle.mesh @name` at the beginning of the module. */
MLIR_CAPI_EXPORTED void heddleModuleDeclareMesh(MlirModule module,
                                                MlirStringRef name,
                                                MlirAttribute mesh);

/*===----------------------------------------------------------------------===*\
|* Plans (docs/plan.md)                                                       *|
\*===----------------------------------------------------------------------===*/

/* Reads a plan and writes it in its canonical form to `write`. If the plan is
 * wrong, writes the error as "source:line:column: path: expected ..." and
 * fails. */
MLIR_CAPI_EXPORTED MlirLogicalResult
heddlePlanCanonicalize(MlirStringRef text, MlirStringRef source,
                       MlirStringCallback write, void *userData);

/* Writes the text of the standard plan for the module: data parallel x tensor
 * parallel with ZeRO (level 0 to 3) over the data axis. If there is no such
 * plan, writes the reason and fails. */
MLIR_CAPI_EXPORTED MlirLogicalResult heddlePlanGetDefault(
    MlirModule module, int64_t dataParallel, int64_t tensorParallel,
    unsigned zeroLevel, MlirStringCallback write, void *userData);

/*===----------------------------------------------------------------------===*\
|* Partitioning and compiling                                                 *|
\*===----------------------------------------------------------------------===*/

/* Partitions a global program into the program of one device. `plan` is the
 * text of a plan. It may be empty if the module declares a mesh; then the
 * attributes heddle.sharding of arguments and results and heddle.factors of
 * ops say how to partition. */
MLIR_CAPI_EXPORTED MlirLogicalResult heddlePartition(MlirModule module,
                                                     MlirStringRef plan);

/* Compiles a partitioned module into the artifact folder `path`, for
 * heddle_rt/c_api.h or heddle-run. `targetCpu` is "native" or an LLVM CPU name.
 * The module is consumed: afterwards it is in the LLVM dialect. */
MLIR_CAPI_EXPORTED MlirLogicalResult heddleCompile(MlirModule module,
                                                   MlirStringRef path,
                                                   MlirStringRef targetCpu);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_C_HEDDLE_H */
