/*===- c_api.h - Sessions from C ----------------------------------*- C -*-===*\
|*                                                                            *|
|* heddle_rt/session.h for C and for languages that call C. A function that   *|
|* can fail writes a message of at most error_size bytes, with the            *|
|* terminating zero, to `error`. A longer message is cut off. `error` may be  *|
|* null with size 0.                                                          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef HEDDLE_RT_C_API_H
#define HEDDLE_RT_C_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One loaded artifact with its devices; used by one thread at a time. */
typedef struct heddle_rt_session heddle_rt_session;

/* Dense row-major memory of a whole global tensor of the manifest's type and
 * shape; `size` in bytes is checked. */
typedef struct {
  const void *data;
  size_t size;
} heddle_rt_argument;
typedef struct {
  void *data; /* null with size 0: the result is not copied */
  size_t size;
} heddle_rt_result;

/* Loads an artifact folder and starts its devices as threads. cores_per_device
 * 0: the machine's cores divided by the devices. Null on failure. */
heddle_rt_session *heddle_rt_session_load(const char *directory,
                                          int cores_per_device, char *error,
                                          size_t error_size);
void heddle_rt_session_destroy(heddle_rt_session *session);

int heddle_rt_session_num_devices(const heddle_rt_session *session);

/* Runs a table, by its name, on all devices; inputs and outputs in the
 * manifest's order, the tensors of all micro-batches one after another. 0 on
 * success, else 1. */
int heddle_rt_session_run(heddle_rt_session *session, const char *program,
                          const heddle_rt_argument *arguments,
                          size_t num_arguments, const heddle_rt_result *results,
                          size_t num_results, char *error, size_t error_size);

/* A variable as a whole global tensor. 0 on success, else 1. */
int heddle_rt_session_read_variable(const heddle_rt_session *session,
                                    const char *name, void *data, size_t size,
                                    char *error, size_t error_size);
int heddle_rt_session_write_variable(heddle_rt_session *session,
                                     const char *name, const void *data,
                                     size_t size, char *error,
                                     size_t error_size);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_RT_C_API_H */
