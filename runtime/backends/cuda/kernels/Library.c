//===- Library.c - All kernels of the library, as one PTX module ----------===//

#include "Attention.c"
#include "Epilogues.c"
#include "Links.c"
#include "Memory.c"
