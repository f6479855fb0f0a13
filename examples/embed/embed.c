/*===- embed.c - Heddle from C ------------------------------------------------===*\
|*                                                                            *|
|* usage: embed-c FOLDER                                                      *|
|*                                                                            *|
|* Builds a mesh and shardings, partitions a matrix product of upstream ops   *|
|* over 2 x 2 devices, compiles it to FOLDER, runs it there and checks it.    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "heddle-c/Heddle.h"
#include "heddle_rt/c_api.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/Diagnostics.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { M = 6, K = 10, N = 7 };

static const char *program =
    "func.func @main(%x: tensor<6x10xf32>, %w: tensor<10x7xf32>)"
    "    -> tensor<6x7xf32> {\n"
    "  %zero = arith.constant 0.0 : f32\n"
    "  %empty = tensor.empty() : tensor<6x7xf32>\n"
    "  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x7xf32>)"
    "      -> tensor<6x7xf32>\n"
    "  %y = linalg.matmul ins(%x, %w : tensor<6x10xf32>, tensor<10x7xf32>)"
    "      outs(%init : tensor<6x7xf32>) -> tensor<6x7xf32>\n"
    "  return %y : tensor<6x7xf32>\n"
    "}\n";

static void printString(MlirStringRef text, void *file) {
  fwrite(text.data, 1, text.length, (FILE *)file);
}

static MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                         void *userData) {
  (void)userData;
  mlirDiagnosticPrint(diagnostic, printString, stderr);
  fputc('\n', stderr);
  return mlirLogicalResultSuccess();
}

static MlirStringRef text(const char *string) {
  return mlirStringRefCreateFromCString(string);
}

/* Attributes of the function's arguments: x by rows, w by columns (which do not
 * divide: the last device's part is padded). */
static void shardArguments(MlirContext context, MlirOperation function) {
  intptr_t rows[] = {1, 0}, columns[] = {0, 1};
  MlirStringRef dp = text("dp"), tp = text("tp");
  MlirAttribute shardings[] = {
      heddleShardingAttrGet(context, text("mesh"), 2, rows, &dp),
      heddleShardingAttrGet(context, text("mesh"), 2, columns, &tp)};
  MlirAttribute arguments[2];
  MlirIdentifier name = mlirIdentifierGet(context, text("heddle.sharding"));
  for (int i = 0; i < 2; ++i) {
    MlirNamedAttribute entry = mlirNamedAttributeGet(name, shardings[i]);
    arguments[i] = mlirDictionaryAttrGet(context, 1, &entry);
  }
  mlirOperationSetAttributeByName(function, text("arg_attrs"),
                                  mlirArrayAttrGet(context, 2, arguments));
}

static int compile(MlirContext context, const char *folder) {
  MlirStringRef names[] = {text("dp"), text("tp")};
  int64_t sizes[] = {2, 2};
  MlirModule module = mlirModuleCreateParse(context, text(program));
  if (mlirModuleIsNull(module))
    return 1;
  MlirOperation function = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  MlirAttribute mesh = heddleMeshAttrGet(context, 2, names, sizes);
  shardArguments(context, function);
  heddleModuleDeclareMesh(module, text("mesh"), mesh);
  printf("mesh of %d devices\n", (int)heddleMeshAttrGetNumDevices(mesh));

  int failed = mlirLogicalResultIsFailure(heddlePartition(module, text("")));
  if (!failed) {
    mlirOperationPrint(mlirModuleGetOperation(module), printString, stdout);
    failed = mlirLogicalResultIsFailure(
        heddleCompile(module, text(folder), text("native")));
  }
  mlirModuleDestroy(module);
  return failed;
}

static int check(const char *folder) {
  static float x[M][K], w[K][N], y[M][N];
  char error[512];
  for (int i = 0; i < M * K; ++i)
    (&x[0][0])[i] = (float)(i % 7) - 3;
  for (int i = 0; i < K * N; ++i)
    (&w[0][0])[i] = (float)(i % 5) - 1;

  heddle_rt_session *session =
      heddle_rt_session_load(folder, 1, error, sizeof error);
  if (!session) {
    fprintf(stderr, "embed-c: %s\n", error);
    return 1;
  }
  heddle_rt_argument arguments[] = {{x, sizeof x}, {w, sizeof w}};
  heddle_rt_result results[] = {{y, sizeof y}};
  int failed = heddle_rt_session_run(session, "main", arguments, 2, results, 1,
                                     error, sizeof error);
  if (failed)
    fprintf(stderr, "embed-c: %s\n", error);
  for (int i = 0; i < M && !failed; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += x[i][k] * w[k][j];
      if (!(fabsf(sum - y[i][j]) < 1e-4f)) {
        fprintf(stderr, "embed-c: y[%d][%d]: expected %g, got %g\n", i, j, sum,
                y[i][j]);
        failed = 1;
      }
    }
  if (!failed)
    printf("%d devices computed the product\n",
           heddle_rt_session_num_devices(session));
  heddle_rt_session_destroy(session);
  return failed;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: embed-c FOLDER\n");
    return 2;
  }
  MlirContext context = mlirContextCreate();
  mlirContextAttachDiagnosticHandler(context, printDiagnostic, NULL, NULL);
  heddleRegisterDialects(context);
  int failed = compile(context, argv[1]) || check(argv[1]);
  mlirContextDestroy(context);
  return failed;
}
