//===- ShardingRuleOpInterface.td - Factors of an op -------*- tablegen -*-===//

#ifndef HEDDLE_SHARDINGRULE_OPINTERFACE
#define HEDDLE_SHARDINGRULE_OPINTERFACE

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    States an op's loops ("factors") and the operand and result dimensions that
    each factor runs over. Everything about sharding derives from it. See
    dialects/Interfaces/ShardingRule.h. Ops of other dialects get it by external
    models.
  }];
  let methods = [
    InterfaceMethod<[{
      The rule for the op's present types. Constraints: one entry for each
      operand and result; the product of the sizes of the factors of a dimension
      equals the dimension's size.
    }], "::heddle::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
      Builds what one device computes and returns the local results, or emits
      an error on the op. The default is the same op on local types, which is
      right for every op whose meaning does not depend on global positions.
    }], "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "localize",
    (ins "::heddle::Localizer &":$localizer), "", [{
      return ::heddle::localizeByCloning($_op, localizer);
    }]>
  ];
}

#endif
