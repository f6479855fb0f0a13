//===- GenericForm.cpp - Structured ops with explicit loops ---------------===//

#include "GenericForm.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

using namespace mlir;

/// Generalizes linalg.map, which upstream's generalization refuses because its
/// body has no argument for the element that is overwritten.
static linalg::GenericOp makeGeneric(RewriterBase &rewriter,
                                     linalg::MapOp map) {
  auto generic = rewriter.create<linalg::GenericOp>(
      map.getLoc(), map->getResultTypes(), map.getInputs(), map.getInit(),
      map.getIndexingMapsArray(), map.getIteratorTypesArray());
  generic->setDiscardableAttrs(map->getDiscardableAttrDictionary());
  Region &body = generic.getRegion();
  rewriter.inlineRegionBefore(map.getMapper(), body, body.begin());
  body.front().addArgument(getElementTypeOrSelf(map.getInit().getType()),
                           map.getLoc());
  rewriter.replaceOp(map, generic);
  return generic;
}

FailureOr<linalg::GenericOp> heddle::lower::makeGeneric(RewriterBase &rewriter,
                                                        linalg::LinalgOp op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation()))
    return generic;
  rewriter.setInsertionPoint(op);
  if (auto map = dyn_cast<linalg::MapOp>(op.getOperation()))
    return ::makeGeneric(rewriter, map);
  FailureOr<linalg::GenericOp> generic =
      linalg::generalizeNamedOp(rewriter, op);
  if (failed(generic))
    return op->emitOpError() << "has no form with explicit loops";
  return generic;
}
