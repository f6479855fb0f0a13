/*===- Heddle.h - Heddle from C --------------------------------------*- C -*-===*\
|*                                                                            *|
|* The partitioner and the compiler behind MLIR's own C API (mlir-c/IR.h, which *|
|* libHeddle carries too). Errors are diagnostics of the context: attach a      *|
|* handler (mlir-c/Diagnostics.h) to see their text. Strings are read during    *|
|* the call alone. examples/embed/embed.c shows the whole way.                  *|
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

/* #heddle.mesh<["dp"=2, "tp"=4]>: numAxes names with as many sizes, the last
 * axis the fastest. The null attribute, with a diagnostic, if a name is empty
 * or occurs twice or a size is not positive. */
MLIR_CAPI_EXPORTED MlirAttribute heddleMeshAttrGet(MlirContext context,
                                                   intptr_t numAxes,
                                                   const MlirStringRef *names,
                                                   const int64_t *sizes);
MLIR_CAPI_EXPORTED bool heddleAttributeIsAMesh(MlirAttribute attribute);
MLIR_CAPI_EXPORTED int64_t heddleMeshAttrGetNumDevices(MlirAttribute mesh);

/* #heddle.sharding<@mesh, [{"dp"}, {}, {"tp"}]>: dimension i is split by
 * numAxes[i] axes, major to minor; `axes` holds those of all dimensions one
 * after the other. `mesh` is the symbol of a heddle.mesh. The null attribute,
 * with a diagnostic, if an axis occurs twice. */
MLIR_CAPI_EXPORTED MlirAttribute heddleShardingAttrGet(
    MlirContext context, MlirStringRef mesh, intptr_t rank,
    const intptr_t *numAxes, const MlirStringRef *axes);
MLIR_CAPI_EXPORTED bool heddleAttributeIsASharding(MlirAttribute attribute);
MLIR_CAPI_EXPORTED intptr_t heddleShardingAttrGetRank(MlirAttribute sharding);
MLIR_CAPI_EXPORTED intptr_t
heddleShardingAttrGetNumAxes(MlirAttribute sharding, intptr_t dimension);
MLIR_CAPI_EXPORTED MlirStringRef heddleShardingAttrGetAxis(
    MlirAttribute sharding, intptr_t dimension, intptr_t index);
/* The type of one device's part: each dimension divided by its devices, rounded
 * up. The null type if the type's rank is not the sharding's, or if an axis is
 * not of the mesh. */
MLIR_CAPI_EXPORTED MlirType heddleShardingAttrGetLocalType(
    MlirAttribute sharding, MlirAttribute mesh, MlirType globalType);

/* Declares `heddle.mesh @name` at the beginning of the module. */
MLIR_CAPI_EXPORTED void heddleModuleDeclareMesh(MlirModule module,
                                                MlirStringRef name,
                                                MlirAttribute mesh);

/*===----------------------------------------------------------------------===*\
|* Plans (docs/plan.md)                                                       *|
\*===----------------------------------------------------------------------===*/

/* Reads a plan and writes it in its canonical form to `write`; if it is wrong,
 * writes the error as "source:line:column: path: expected ..." and fails. */
MLIR_CAPI_EXPORTED MlirLogicalResult
heddlePlanCanonicalize(MlirStringRef text, MlirStringRef source,
                       MlirStringCallback write, void *userData);

/* Writes the text of the standard plan for the module: data parallel x tensor
 * parallel with ZeRO (level 0 to 3) over the data axis. If there is no such
 * plan, writes what was expected and fails. */
MLIR_CAPI_EXPORTED MlirLogicalResult heddlePlanGetDefault(
    MlirModule module, int64_t dataParallel, int64_t tensorParallel,
    unsigned zeroLevel, MlirStringCallback write, void *userData);

/*===----------------------------------------------------------------------===*\
|* Partitioning and compiling                                                 *|
\*===----------------------------------------------------------------------===*/

/* Partitions a global program into the program of one device. The plan's text
 * may be empty if the module declares a mesh. Then heddle.sharding of arguments
 * and results and heddle.factors of ops decide. */
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
