//===- Driver.h - NVIDIA's driver, loaded at run time -----------*- C++ -*-===//
//
// The types and functions of the CUDA driver API that the backend uses. They
// are declared here, so a build needs no toolkit and a machine without a GPU
// needs no driver. Names and values are those of cuda.h, where the functions
// are documented; test/unit/Runtime/Cuda/CudaHeadersTest.cpp compares them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_DRIVER_H
#define HEDDLE_RT_BACKENDS_CUDA_DRIVER_H

#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace heddle::runtime::cuda {

using Result = int; ///< CUresult; 0: success
using DeviceNumber = int;
using Address = uint64_t; ///< of the device's memory
using Context = struct ContextHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Graph = struct GraphHandle *;
using GraphExec = struct GraphExecHandle *;

inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;
inline constexpr int kAttributeMajor = 75, kAttributeMinor = 76;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;

/// The oldest driver that serves: that of CUDA 12.0.
inline constexpr int kLeastDriver = 12000;

/// X(member, symbol in the library, parameters). All return a Result.
#define HEDDLE_CUDA_DRIVER_FUNCTIONS(X)                                        \
  X(getErrorString, cuGetErrorString, (Result, const char **))                 \
  X(init, cuInit, (unsigned))                                                  \
  X(driverGetVersion, cuDriverGetVersion, (int *))                             \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                 \
  X(deviceGet, cuDeviceGet, (DeviceNumber *, int))                             \
  X(deviceGetName, cuDeviceGetName, (char *, int, DeviceNumber))               \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, DeviceNumber))      \
  X(primaryCtxRetain, cuDevicePrimaryCtxRetain, (Context *, DeviceNumber))     \
  X(primaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (DeviceNumber))           \
  X(ctxSetCurrent, cuCtxSetCurrent, (Context))                                 \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                         \
  X(memAlloc, cuMemAlloc_v2, (Address *, size_t))                              \
  X(memFree, cuMemFree_v2, (Address))                                          \
  X(memcpyHtoD, cuMemcpyHtoD_v2, (Address, const void *, size_t))              \
  X(memcpyDtoH, cuMemcpyDtoH_v2, (void *, Address, size_t))                    \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream)) \
  X(memsetD8Async, cuMemsetD8Async, (Address, unsigned char, size_t, Stream))  \
  X(streamCreate, cuStreamCreate, (Stream *, unsigned))                        \
  X(streamDestroy, cuStreamDestroy_v2, (Stream))                               \
  X(streamSynchronize, cuStreamSynchronize, (Stream))                          \
  X(streamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))             \
  X(eventCreate, cuEventCreate, (Event *, unsigned))                           \
  X(eventDestroy, cuEventDestroy_v2, (Event))                                  \
  X(eventRecord, cuEventRecord, (Event, Stream))                               \
  X(eventSynchronize, cuEventSynchronize, (Event))                             \
  X(eventElapsedTime, cuEventElapsedTime, (float *, Event, Event))             \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (Module *, const void *, unsigned, int *, void **))                        \
  X(moduleUnload, cuModuleUnload, (Module))                                    \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (Function *, Module, const char *))                                        \
  X(launchKernel, cuLaunchKernel,                                              \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
     unsigned, Stream, void **, void **))                                      \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (Stream, int))                \
  X(streamEndCapture, cuStreamEndCapture, (Stream, Graph *))                   \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (GraphExec *, Graph, unsigned long long))                                  \
  X(graphLaunch, cuGraphLaunch, (GraphExec, Stream))                           \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec))                         \
  X(graphDestroy, cuGraphDestroy, (Graph))

/// The driver's functions. Tests fill in others.
struct Driver {
#define X(member, symbol, parameters) Result(*member) parameters = nullptr;
  HEDDLE_CUDA_DRIVER_FUNCTIONS(X)
#undef X

  /// An error that names the function, if `result` is one.
  Status check(Result result, const char *function) const;
};

/// Loads libcuda.so.1. Errors: it is missing, or lacks a function.
Expected<Driver> loadDriver();

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_DRIVER_H
