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

/* 50 ms at a rate of 1 GFLOP/s. */
const heddle_rt_kernel_work heddle_kernel_work[] = {
    {doubleRows, 50 * 1000 * 1000, 72}, {0, 0, 0}};

const char heddle_calls[] =
    "{\"fail\": [{\"call\": \"matmul\", \"operators\": [\"h.0.mlp\"],"
    " \"kind\": \"gradient\"}],"
    " \"hang\": [{\"call\": \"all_reduce\", \"operators\": [\"loss\"]}],"
    " \"step\": [{\"call\": \"doubleRows\", \"operators\": [\"weight\"],"
    " \"kind\": \"parameter\"},"
    " {\"call\": \"all_reduce\", \"operators\": [\"x\", \"y\", \"z\"],"
    " \"kind\": \"activation\", \"axes\": \"dp\", \"bytes\": 4}]}";

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

/* y = w * x, for x of two elements. */
static void multiply(void *const *buffers, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  const float *w = buffers[1], *x = buffers[2];
  float *y = buffers[3];
  y[0] = *w * x[0], y[1] = *w * x[1];
}

/* g += x * dy */
static void addProduct(void *const *buffers, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  const float *x = buffers[1], *dy = buffers[2];
  float *g = buffers[3];
  *g += x[0] * dy[0] + x[1] * dy[1];
}

static void timesTen(void *const *buffers, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  *(int64_t *)buffers[2] = 10 * *(const int64_t *)buffers[1];
}

/* A stage of a pipeline over the mesh axis 0. Variable s is the weight of stage
 * s, variable 2 + s its gradient, both f32. */
heddle_rt_status heddle_program_forward(heddle_rt_device *device,
                                        const heddle_rt_frame *frame) {
  void *buffers[] = {(void *)frame->coordinates,
                     frame->variables[frame->coordinates[0]],
                     frame->arguments[0], frame->results[0]};
  return heddle_rt_launch(device, 0, multiply, buffers, 4, 0, 0, 1, 1);
}

/* Adds x * dy to the gradient and returns w * dy, of the arguments x and dy. */
heddle_rt_status heddle_program_backward(heddle_rt_device *device,
                                         const heddle_rt_frame *frame) {
  int64_t stage = frame->coordinates[0];
  void *products[] = {(void *)frame->coordinates, frame->arguments[0],
                      frame->arguments[1], frame->variables[2 + stage]};
  void *gradient[] = {(void *)frame->coordinates, frame->variables[stage],
                      frame->arguments[1], frame->results[0]};
  heddle_rt_status status =
      heddle_rt_launch(device, 0, addProduct, products, 4, 0, 0, 1, 1);
  return status ? status
                : heddle_rt_launch(device, 0, multiply, gradient, 4, 0, 0, 1, 1);
}

/* Returns ten times its argument, an i64. */
heddle_rt_status heddle_program_number(heddle_rt_device *device,
                                       const heddle_rt_frame *frame) {
  void *buffers[] = {(void *)frame->coordinates, frame->arguments[0],
                     frame->results[0]};
  return heddle_rt_launch(device, 0, timesTen, buffers, 3, 0, 0, 1, 1);
}
