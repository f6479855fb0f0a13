//===- Heddle.cpp - Heddle from C -----------------------------------------===//

#include "heddle-c/Heddle.h"
#include "heddle/Heddle.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void heddleRegisterDialects(MlirContext context) {
  DialectRegistry registry;
  registerAllDialects(registry);
  unwrap(context)->appendDialectRegistry(registry);
  unwrap(context)->loadAllAvailableDialects();
}

void heddleRegisterPasses() {
  static bool once = (registerAllPasses(), true);
  (void)once;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

MlirAttribute heddleMeshAttrGet(MlirContext c, intptr_t numAxes,
                                const MlirStringRef *names,
                                const int64_t *sizes) {
  MLIRContext *context = unwrap(c);
  auto emitError = [&] { return mlir::emitError(UnknownLoc::get(context)); };
  SmallVector<MeshAxisAttr> axes;
  for (intptr_t i = 0; i < numAxes; ++i) {
    auto axis = MeshAxisAttr::getChecked(
        emitError, context, StringAttr::get(context, unwrap(names[i])),
        sizes[i]);
    if (!axis)
      return {nullptr};
    axes.push_back(axis);
  }
  return wrap(Attribute(
      MeshAttr::getChecked(emitError, context, ArrayRef<MeshAxisAttr>(axes))));
}

bool heddleAttributeIsAMesh(MlirAttribute attribute) {
  return isa_and_nonnull<MeshAttr>(unwrap(attribute));
}

int64_t heddleMeshAttrGetNumDevices(MlirAttribute mesh) {
  return cast<MeshAttr>(unwrap(mesh)).getNumDevices();
}

MlirAttribute heddleShardingAttrGet(MlirContext c, MlirStringRef mesh,
                                    intptr_t rank, const intptr_t *numAxes,
                                    const MlirStringRef *axes) {
  MLIRContext *context = unwrap(c);
  SmallVector<AxisListAttr> dims;
  for (intptr_t i = 0; i < rank; ++i) {
    SmallVector<StringAttr> names;
    for (intptr_t k = 0; k < numAxes[i]; ++k)
      names.push_back(StringAttr::get(context, unwrap(*axes++)));
    dims.push_back(AxisListAttr::get(context, names));
  }
  return wrap(Attribute(ShardingAttr::getChecked(
      [&] { return mlir::emitError(UnknownLoc::get(context)); }, context,
      FlatSymbolRefAttr::get(context, unwrap(mesh)),
      ArrayRef<AxisListAttr>(dims), ReductionKind::Sum,
      ArrayRef<StringAttr>())));
}

bool heddleAttributeIsASharding(MlirAttribute attribute) {
  return isa_and_nonnull<ShardingAttr>(unwrap(attribute));
}

intptr_t heddleShardingAttrGetRank(MlirAttribute sharding) {
  return cast<ShardingAttr>(unwrap(sharding)).getRank();
}

intptr_t heddleShardingAttrGetNumAxes(MlirAttribute sharding,
                                      intptr_t dimension) {
  return cast<ShardingAttr>(unwrap(sharding))
      .getDims()[dimension]
      .getAxes()
      .size();
}

MlirStringRef heddleShardingAttrGetAxis(MlirAttribute sharding,
                                        intptr_t dimension, intptr_t index) {
  return wrap(cast<ShardingAttr>(unwrap(sharding))
                  .getDims()[dimension]
                  .getAxes()[index]
                  .getValue());
}

MlirType heddleShardingAttrGetLocalType(MlirAttribute s, MlirAttribute m,
                                        MlirType globalType) {
  auto sharding = cast<ShardingAttr>(unwrap(s));
  auto mesh = cast<MeshAttr>(unwrap(m));
  auto type = dyn_cast<RankedTensorType>(unwrap(globalType));
  if (!type || type.getRank() != sharding.getRank())
    return {nullptr};
  for (AxisListAttr dim : sharding.getDims())
    for (StringAttr axis : dim.getAxes())
      if (!mesh.getAxisSize(axis))
        return {nullptr};
  return wrap(Type(sharding.getLocalType(type, mesh)));
}

void heddleModuleDeclareMesh(MlirModule module, MlirStringRef name,
                             MlirAttribute mesh) {
  ModuleOp op = unwrap(module);
  OpBuilder builder = OpBuilder::atBlockBegin(op.getBody());
  builder.create<MeshOp>(op.getLoc(), unwrap(name),
                         cast<MeshAttr>(unwrap(mesh)));
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

static void writeText(StringRef text, MlirStringCallback write,
                      void *userData) {
  write(wrap(text), userData);
}

MlirLogicalResult heddlePlanCanonicalize(MlirStringRef text,
                                         MlirStringRef source,
                                         MlirStringCallback write,
                                         void *userData) {
  llvm::Expected<Plan> plan = parsePlan(unwrap(text), unwrap(source));
  if (!plan) {
    writeText(llvm::toString(plan.takeError()), write, userData);
    return mlirLogicalResultFailure();
  }
  writeText(writePlan(*plan), write, userData);
  return mlirLogicalResultSuccess();
}

MlirLogicalResult heddlePlanGetDefault(MlirModule module, int64_t dataParallel,
                                       int64_t tensorParallel,
                                       unsigned zeroLevel,
                                       MlirStringCallback write,
                                       void *userData) {
  llvm::Expected<Plan> plan = makeDefaultPlan(
      unwrap(module), {{dataParallel}, {tensorParallel}}, zeroLevel);
  writeText(plan ? writePlan(*plan) : llvm::toString(plan.takeError()), write,
            userData);
  return wrap(success(bool(plan)));
}

//===----------------------------------------------------------------------===//
// Partitioning and compiling
//===----------------------------------------------------------------------===//

MlirLogicalResult heddlePartition(MlirModule module, MlirStringRef plan) {
  PartitionOptions options;
  options.planText = unwrap(plan).str();
  return wrap(partition(unwrap(module), options));
}

MlirLogicalResult heddleCompile(MlirModule module, MlirStringRef path,
                                MlirStringRef targetCpu) {
  CompileOptions options;
  options.targetCpu = unwrap(targetCpu).str();
  return wrap(compileToArtifact(unwrap(module), options, unwrap(path)));
}
