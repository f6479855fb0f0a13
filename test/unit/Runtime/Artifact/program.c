/* Programs for SessionTest.cpp, in the form that the compiler writes. The mesh
 * is dp x tp; group 0 is dp, 1 is tp, 2 is both. Variable 0 is `weight`, f32
 * [5, 6] over dp and tp; variable 1 is `steps`, i64. */
#include "heddle_rt/abi.h"

#include <string.h>
#include <time.h>

static void doubleRows(void *const *buffers, int64_t begin, int64_t end) {
  float *x = buffers[1];
  int64_t width = *(const int64_t *)buffers[2];
  for (int64_t i = begin * width; i < end * width; ++i)
    x[i] *= 2.0f;
}

/* Doubles the weight, increments `steps` and returns the sum of the argument
 * (f32 [4, 2] over dp) over its elements and dp, by way of the arena. */
heddle_rt_status heddle_program_step(heddle_rt_device *device,
                                     const heddle_rt_frame *frame) {
  int64_t width = 3;
  void *buffers[] = {(void *)frame->coordinates, frame->variables[0], &width};
  if (heddle_rt_launch(device, 0, doubleRows, buffers, 3, &width, 1, 3, 1))
    return 1;
  ++*(int64_t *)frame->variables[1];
  float *partial = (float *)frame->arena;
  const float *x = (const float *)frame->arguments[0];
  *partial = x[0] + x[1] + x[2] + x[3];
  if (heddle_rt_all_reduce(device, 0, 0, HEDDLE_RT_SUM, HEDDLE_RT_F32, partial,
                           frame->results[0], 1))
    return 1;
  /* The second result, i32 [4] over dp and tp, is the device: 10 dp + tp. */
  *(int32_t *)frame->results[1] =
      (int32_t)(10 * frame->coordinates[0] + frame->coordinates[1]);
  return 0;
}

/* The device that the argument names fails, by multiplying a matrix without
 * rows. The other devices wait for it in a collective. */
heddle_rt_status heddle_program_fail(heddle_rt_device *device,
                                     const heddle_rt_frame *frame) {
  static const heddle_rt_matmul_desc bad = {.m = 0};
  int32_t who = *(const int32_t *)frame->arguments[0];
  if (who == 2 * frame->coordinates[0] + frame->coordinates[1])
    if (heddle_rt_matmul(device, 0, &bad, frame->arena, frame->arena,
                         frame->arena, 0))
      return 1;
  if (heddle_rt_all_reduce(device, 0, 2, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                           frame->arena, frame->arena, 16))
    return 1;
  return heddle_rt_synchronize(device);
}

/* The argument names a device and a number of milliseconds. The device sleeps
 * that long before a collective of all devices. */
heddle_rt_status heddle_program_hang(heddle_rt_device *device,
                                     const heddle_rt_frame *frame) {
  const int32_t *argument = (const int32_t *)frame->arguments[0];
  if (argument[0] == 2 * frame->coordinates[0] + frame->coordinates[1]) {
    struct timespec duration = {argument[1] / 1000,
                                argument[1] % 1000 * 1000000L};
    nanosleep(&duration, 0);
  }
  if (heddle_rt_all_reduce(device, 0, 2, HEDDLE_RT_SUM, HEDDLE_RT_F32,
                           frame->arena, frame->arena, 16))
    return 1;
  return heddle_rt_synchronize(device);
}
