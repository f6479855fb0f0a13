//===- CublasLt12.c - A libcublasLt.so.12 of the emulated GPU -------------===//
//
// Answers its version. All other functions are those of libcuda.so.1, which it
// is linked to.
//
//===----------------------------------------------------------------------===//

#include <stddef.h>

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return 120803; }
