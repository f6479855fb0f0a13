//===- HeddleLibraryOps.td - Ops for what libraries fuse ----*- tablegen -*-===//
//
// Ops that only lowering makes. They have a header of their own
// (dialects/Heddle/LibraryOps.h), since few files know them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIBRARY_OPS
#define HEDDLE_LIBRARY_OPS

include "dialects/Heddle/Ops/HeddleEpilogues.td"
include "dialects/Heddle/Ops/HeddleOpBase.td"

def FusedContractOp : Heddle_Op<"fused_contract",
    [Pure, AttrSizedOperandSegments, DeclareOpInterfaceMethods<WorkOpInterface>]> {
  let summary = "a contraction with an epilogue of the product library";
  let description = [{
    Let p be the result of `heddle.contract` on the same operands, with bias and
    accumulate. The results depend on the epilogue:
    - `gelu`: result = gelu(p) in the tanh form, extra = p;
    - `gelu_grad`: result = p * gelu'(input), where `input` is the input of the
      forward pass's gelu;
    - `lhs_sums`, `rhs_sums`: result = p, and extra is lhs or rhs, summed over
      the letters that the result lacks.

    Constraints:
    - lhs, rhs and result are those of a `heddle.contract`;
    - `gelu` and `gelu_grad` have no `accumulate`, sums and `gelu_grad` no `bias`;
    - `gelu_grad` alone has an `input`, of the result's type, and no `extra`;
    - `extra` of `gelu` has the result's type; sums have the result's element
      type and the dimensions of the operand's letters that the result has, in
      the operand's order.

    Example:
    ```mlir
    %y, %u = heddle.fused_contract "h.0.mlp.c_fc" gelu [bsh, hf -> bsf] %n, %w1 bias(%b along [2])
       : (tensor<4x256x768xbf16>, tensor<768x3072xbf16>, tensor<3072xbf16>)
      -> (tensor<4x256x3072xbf16>, tensor<4x256x3072xbf16>)
    ```
  }];
  let arguments = (ins FloatTensor:$lhs, FloatTensor:$rhs,
                       Optional<FloatTensor>:$bias, Optional<FloatTensor>:$accumulate,
                       Optional<FloatTensor>:$input,
                       ProductEpilogue:$epilogue, ContractionAttr:$contraction,
                       OptionalAttr<DenseI64ArrayAttr>:$bias_along,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result, Optional<FloatTensor>:$extra);
  let assemblyFormat = [{
    ($op_name^)? $epilogue custom<BareContraction>($contraction)
    $lhs `,` $rhs (`bias` `(` $bias^ `along` $bias_along `)`)?
    (`accumulate` `(` $accumulate^ `)`)? (`input` `(` $input^ `)`)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_LIBRARY_OPS
