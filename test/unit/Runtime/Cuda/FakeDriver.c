// A libcuda.so.1 with which cuDNN makes plans for a GPU that is not there. It
// loads no kernels: their handles are any pointers.

#include <dlfcn.h>
#include <stddef.h>

typedef int Result;
enum { kSuccess = 0, kNotFound = 500 };
static void *anything = &anything;

Result cuInit(unsigned flags) { return (void)flags, kSuccess; }
Result cuDriverGetVersion(int *version) { return *version = 13000, kSuccess; }
Result cuDeviceGetCount(int *count) { return *count = 1, kSuccess; }
Result cuDeviceGet(int *device, int number) {
  return *device = number, kSuccess;
}
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)attribute, (void)device;
  return *value = 0, kSuccess;
}
Result cuLibraryLoadData(void **library) {
  return *library = anything, kSuccess;
}
Result cuLibraryGetKernel(void **kernel) {
  return *kernel = anything, kSuccess;
}
Result cuKernelGetFunction(void **function) {
  return *function = anything, kSuccess;
}
Result cuModuleGetFunction(void **function) {
  return *function = anything, kSuccess;
}
// NVRTC reads the size of a table that only NVIDIA knows.
Result cuGetExportTable(const void **table) {
  static const size_t sizes[] = {sizeof(size_t)};
  return *table = sizes, kSuccess;
}
Result cuGetProcAddress_v2(const char *symbol, void **function) {
  *function = dlsym(RTLD_DEFAULT, symbol);
  return *function ? kSuccess : kNotFound;
}

// Functions that are looked for and not called.
#define UNUSED(name)                                                           \
  Result name(void) { return kNotFound; }
UNUSED(cuCtxGetCurrent)
UNUSED(cuCtxGetLimit)
UNUSED(cuCtxPopCurrent)
UNUSED(cuCtxPushCurrent)
UNUSED(cuGetErrorName)
UNUSED(cuGetErrorString)
UNUSED(cuGetProcAddress)
UNUSED(cuKernelGetAttribute)
UNUSED(cuKernelSetAttribute)
UNUSED(cuLaunchCooperativeKernel)
UNUSED(cuLaunchKernel)
UNUSED(cuLaunchKernelEx)
UNUSED(cuLibraryLoadFromFile)
UNUSED(cuLibraryUnload)
UNUSED(cuLinkAddData)
UNUSED(cuLinkComplete)
UNUSED(cuLinkCreate)
UNUSED(cuLinkDestroy)
UNUSED(cuModuleLoadData)
UNUSED(cuOccupancyMaxPotentialClusterSize)
UNUSED(cuStreamGetCtx)
