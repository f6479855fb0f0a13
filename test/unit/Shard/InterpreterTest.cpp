//===- InterpreterTest.cpp - Limits of the interpreter --------------------===//
//
// Expects errors on ops that the interpreter cannot execute: values that it
// cannot hold, indices outside of tensors, divisions by zero, recursion.

#include "test/support/Interpreter/Interpreter.h"
#include "heddle/InitAll.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;

namespace {

/// Interprets @f without arguments and returns the line and text of the error;
/// "" if there is none.
std::string interpretText(const char *text) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (auto at = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      message += std::to_string(at.getLine()) + ": ";
    message += diagnostic.str();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return "no module: " + message;
  Variables variables;
  auto results =
      interpret(module->lookupSymbol<func::FuncOp>("f"), {}, variables);
  EXPECT_EQ(succeeded(results), message.empty());
  return message;
}

} // namespace

TEST(Interpreter, RefusesDynamicShapes) {
  EXPECT_EQ(interpretText(R"(func.func @f() {
      %n = arith.constant 3 : index
      %x = tensor.empty(%n) : tensor<?xf32>
      return
    })"),
            "3: cannot interpret 'tensor.empty': expected a tensor of static "
            "shape, got 'tensor<?xf32>'");
}

TEST(Interpreter, RefusesUnrankedArguments) {
  EXPECT_EQ(interpretText(R"(func.func @f(%x: tensor<*xf32>) {
      return
    })"),
            "1: cannot interpret 'func.func': expected a tensor of static "
            "shape, got 'tensor<*xf32>'");
}

TEST(Interpreter, RefusesWideIntegersInBodiesAndCallees) {
  EXPECT_EQ(interpretText(R"(func.func private @g() {
      %i = arith.constant 3 : i32
      %e = tensor.empty() : tensor<4xi32>
      %x = linalg.map outs(%e : tensor<4xi32>)
        () {
          %w = arith.extsi %i : i32 to i128
          %n = arith.trunci %w : i128 to i32
          linalg.yield %n : i32
        }
      return
    }
    func.func @f() {
      call @g() : () -> ()
      return
    })"),
            "6: cannot interpret 'arith.extsi': expected integers of at most "
            "64 bits, got 'i128'");
}

TEST(Interpreter, RefusesWhatDoesNotFit) {
  EXPECT_EQ(interpretText(R"(func.func @f() {
      %x = tensor.empty() : tensor<3000000000x4000000000x5000000000xf32>
      return
    })"),
            "2: cannot interpret 'tensor.empty': expected a tensor of at most "
            "268435456 elements, got "
            "'tensor<3000000000x4000000000x5000000000xf32>'");
  EXPECT_EQ(interpretText(R"(func.func @f() {
      %x = tensor.empty() : tensor<3000000000x0xf32>
      return
    })"),
            "");
}

TEST(Interpreter, RefusesPlacesOutside) {
  for (const char *op :
       {"insert %v into %t[%n] : tensor<2xf32>",
        "extract %t[%n] : tensor<2xf32>",
        "extract_slice %t[%n] [1] [1] : tensor<2xf32> to tensor<1xf32>",
        "insert_slice %s into %t[%n] [1] [1] : tensor<1xf32> into "
        "tensor<2xf32>"}) {
    std::string text = std::string(R"(func.func @f() {
      %n = arith.constant 5 : index
      %v = arith.constant 1.0 : f32
      %t = tensor.empty() : tensor<2xf32>
      %s = tensor.empty() : tensor<1xf32>
      %r = tensor.)") + op +
                       "\n return\n }";
    EXPECT_EQ(interpretText(text.c_str()),
              "6: reaches beyond the end of its tensor")
        << op;
  }
}

TEST(Interpreter, RefusesDivisionsByZero) {
  EXPECT_EQ(interpretText(R"(func.func @f() {
      %n = arith.constant 5 : i32
      %z = arith.constant 0 : i32
      %r = arith.remsi %n, %z : i32
      return
    })"),
            "4: divides by zero");
}

TEST(Interpreter, RefusesRecursion) {
  EXPECT_EQ(interpretText(R"(func.func private @g() {
      call @f() : () -> ()
      return
    }
    func.func @f() {
      call @g() : () -> ()
      return
    })"),
            "2: cannot interpret recursion: @f calls itself");
}

TEST(Interpreter, ReadsResources) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @f() -> (tensor<3xf32>, tensor<2xi1>) {
      %w = arith.constant dense_resource<w> : tensor<3xf32>
      %m = arith.constant dense_resource<m> : tensor<2xi1>
      return %w, %m : tensor<3xf32>, tensor<2xi1>
    }
    {-# dialect_resources: { builtin: {
      w: "0x040000000000803F0000004000004040", m: "0x010000000001"
    } } #-})",
                                            &context);
  ASSERT_TRUE(module);
  Variables variables;
  auto results =
      interpret(module->lookupSymbol<func::FuncOp>("f"), {}, variables);
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ((*results)[1].values, (std::vector<double>{0, 1}));

  EXPECT_EQ(interpretText(R"(func.func @f() {
      %w = arith.constant dense_resource<w> : tensor<3xf32>
      return
    })"),
            "2: expected the resource 'w' among the file's dialect_resources, "
            "got none");
}
