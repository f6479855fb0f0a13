//===- abi.h - Calls between compiled programs and the runtime ----*- C -*-===//
//
// The interface between generated code and the runtime. A compiled artifact
// defines program functions (`heddle_rt_program_fn`) and kernel functions
// (`heddle_rt_kernel_fn`). Every other symbol that it uses is declared here and
// is found in libheddle_rt when the artifact is loaded. Each op of the `rt`
// dialect lowers to exactly one of these calls.
//
// Conventions
//  - A *device* is one rank: one element of the mesh. All ranks run the same
//    program function, each with its own frame.
//  - Shapes are local to the device and static; sizes count elements unless the
//    name says bytes. Buffers are dense row-major and 64-byte aligned.
//  - Every call names the stream that it is ordered on. A call only issues its
//    work and may return before the work begins. Calls on one stream run in the
//    order of issue; streams are ordered against each other only by events. A
//    backend may run a stream synchronously with the caller.
//  - One thread at a time makes the calls of a device. Memory that a call names
//    must stay as it is until its stream has passed the call, unless the call
//    says that it copies.
//  - Descriptors (`*_desc`) are constants of the artifact with static lifetime.
//    The runtime may cache prepared data under a descriptor's address.
//  - Work that fails (a peer died, no memory) records an error on the device.
//    The device then drops all work that has not started, and every later call
//    returns a status other than 0. The program function returns that status at
//    once.
//
// The header is plain C and stable within a value of HEDDLE_RT_ABI_VERSION.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_ABI_H
#define HEDDLE_RT_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_RT_ABI_VERSION 4

/// One rank, opaque to generated code.
typedef struct heddle_rt_device heddle_rt_device;

/// 0 on success. After an error, the device keeps the message.
typedef int32_t heddle_rt_status;

typedef enum heddle_rt_dtype {
  HEDDLE_RT_F32 = 0,
  HEDDLE_RT_BF16 = 1,
  HEDDLE_RT_F16 = 2,
  HEDDLE_RT_F64 = 3,
  HEDDLE_RT_I1 = 4, ///< one byte an element, 0 or 1
  HEDDLE_RT_I8 = 5,
  HEDDLE_RT_I32 = 6,
  HEDDLE_RT_I64 = 7
} heddle_rt_dtype;

typedef enum heddle_rt_reduction {
  HEDDLE_RT_SUM = 0,
  HEDDLE_RT_MAX = 1
} heddle_rt_reduction;

/// The memory that a program function works on. All pointers stay valid until
/// the calls that the function issues are done.
typedef struct heddle_rt_frame {
  uint8_t *arena;            ///< `arena_bytes` of the manifest, 64-byte aligned
  uint8_t *const *variables; ///< local shards, in the manifest's order
  uint8_t *const *arguments; ///< local shards of the program's arguments
  uint8_t *const *results;   ///< local shards of the program's results
  const int64_t *coordinates; ///< this device's index along each mesh axis
} heddle_rt_frame;

typedef heddle_rt_status (*heddle_rt_program_fn)(heddle_rt_device *device,
                                                 const heddle_rt_frame *frame);

/// The frame that a program was compiled for. The library may export one, named
/// as the program's function with ".frame" appended. A manifest that says
/// otherwise does not belong to the library.
typedef struct heddle_rt_frame_sizes {
  int64_t arena_bytes;
  int64_t variables, arguments, results; ///< numbers of pointers
} heddle_rt_frame_sizes;

/// A fused loop nest over blocks [begin, end) of its outermost loop. Different
/// blocks write different elements. So the bits do not depend on how the blocks
/// are split into ranges, nor on the order in which ranges run. `buffers[0]`
/// points to the frame's coordinates.
typedef void (*heddle_rt_kernel_fn)(void *const *buffers, int64_t begin,
                                    int64_t end);

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

/// Runs blocks [0, blocks) of `kernel` on all cores of the device, in ranges of
/// at least `grain` blocks. The numbers that the kernel takes stand in `words`,
/// and their entries of `buffers` point into `words`. `buffers` and `words` are
/// copied before the call returns, and the kernel gets entries that point into
/// the copy of `words`. `words` may be null if `num_words` is 0.
heddle_rt_status heddle_rt_launch(heddle_rt_device *device, int32_t stream,
                                  heddle_rt_kernel_fn kernel,
                                  void *const *buffers, int32_t num_buffers,
                                  const int64_t *words, int32_t num_words,
                                  int64_t blocks, int64_t grain);

/// Launches the kernel of the manifest's list `kernels` with the index
/// `kernel`, on a device whose code has such a list. Each parameter has 8
/// bytes: a buffer's address, or a number. They are copied before the call
/// returns.
heddle_rt_status heddle_rt_launch_kernel(heddle_rt_device *device,
                                         int32_t stream, int32_t kernel,
                                         const uint64_t *parameters,
                                         int32_t num_parameters);

/// The work of one launch of `kernel`: operations (a multiplication and an
/// addition count as two), and the bytes that it must read and write. The
/// library may export `const heddle_rt_kernel_work heddle_kernel_work[]`, one
/// entry a kernel and then one with a null kernel. It is read only if
/// computation is emulated.
typedef struct heddle_rt_kernel_work {
  heddle_rt_kernel_fn kernel;
  int64_t flops, bytes;
} heddle_rt_kernel_work;

/// The names of all calls, for traces. The library may export `const char
/// heddle_calls[]`: JSON, one list a program. An item of the list is one call
/// that the program function makes, in order, events left out:
///   {"call": "all_reduce", "operators": ["h.0.mlp"], "kind": "activation",
///    "axes": "tp", "bytes": 512}
/// `call` is the name of a kernel or of a function of this header, without
/// prefix. Only communication has `axes` and `bytes`, the number of bytes that
/// a device sends. A loop is one item: {"before": [...], "after": [...]}.
/// `before` runs once more than `after`. The text is read only when a trace is
/// written.

enum { HEDDLE_RT_MATMUL_MAX_LOOPS = 4 };

/// A loop around a matrix product. Each of its `extent` iterations moves the
/// operands on by the strides, in elements. A loop with `c_stride` 0 and
/// `extent` > 1 is a sum: its iterations accumulate into the same C.
typedef struct heddle_rt_matmul_loop {
  int64_t extent, a_stride, b_stride, c_stride;
} heddle_rt_matmul_loop;

/// C[m,n] = A[m,k] B[k,n] (+ C) (+ bias[n]), summed in f32. Element (i,j) of a
/// matrix X lies at i * x_row_stride + j * x_column_stride; one of the two
/// strides is 1 for A and B; C's column stride is 1.
typedef struct heddle_rt_matmul_desc {
  int64_t m, n, k;
  int64_t a_row_stride, a_column_stride;
  int64_t b_row_stride, b_column_stride;
  int64_t c_row_stride;
  int32_t a_type, b_type, c_type; ///< heddle_rt_dtype
  int32_t bias_type;              ///< heddle_rt_dtype, or -1 for no bias
  int32_t accumulate;             ///< not 0: adds the product to C
  int32_t num_loops;
  heddle_rt_matmul_loop loops[HEDDLE_RT_MATMUL_MAX_LOOPS]; ///< outermost first
  /// Elements to add to the bias pointer per iteration of each loop.
  int64_t bias_strides[HEDDLE_RT_MATMUL_MAX_LOOPS];
} heddle_rt_matmul_desc;

heddle_rt_status heddle_rt_matmul(heddle_rt_device *device, int32_t stream,
                                  const heddle_rt_matmul_desc *desc,
                                  const void *a, const void *b, void *c,
                                  const void *bias);

/// What a device computes with a product if its library can.
typedef enum heddle_rt_epilogue {
  /// C is gelu (tanh form) of the product plus the bias. `extra` receives the
  /// input of gelu.
  HEDDLE_RT_EPILOGUE_GELU = 1,
  /// C is the product times the derivative of gelu at `extra`.
  HEDDLE_RT_EPILOGUE_GELU_GRAD = 2,
  /// The sums of A's rows, m numbers of C's type, are written to `extra`.
  HEDDLE_RT_EPILOGUE_A_SUMS = 3,
  /// The sums of B's columns, n numbers of C's type. `extra` moves on by the
  /// bias strides.
  HEDDLE_RT_EPILOGUE_B_SUMS = 4
} heddle_rt_epilogue;

/// A product with an epilogue. `extra` of GELU and its gradient has C's layout.
/// Only programs for GPUs call this.
heddle_rt_status heddle_rt_fused_matmul(heddle_rt_device *device,
                                        int32_t stream,
                                        const heddle_rt_matmul_desc *desc,
                                        int32_t epilogue, const void *a,
                                        const void *b, void *c,
                                        const void *bias, void *extra);

/// The library of a program for GPUs may export `const heddle_rt_matmul_desc
/// *const heddle_products[]`, the descriptors that products take and then a
/// null. Then a device loads its library of products, and knows the memory of
/// products, before a program runs.

/// The kinds of an attention's mask.
typedef enum heddle_rt_attention_mask {
  HEDDLE_RT_MASK_NONE = 0,
  HEDDLE_RT_MASK_SEEN = 1, ///< i1: 1 for a key that is seen
  /// f32: added to scaled scores. -1e30 or less hides a key.
  HEDDLE_RT_MASK_ADDED = 2
} heddle_rt_attention_mask;

/// Attention of queries [batch, queries, groups, group_size, head] over keys
/// and values [batch, keys, groups, head]. Its memory is linear in queries and
/// keys. Strides are in elements; the head dimension is contiguous. The output
/// and its gradient are dense and have the queries' shape. `lse` is f32 [batch,
/// queries, groups, group_size]: the logarithm of the sum of exponentials of
/// each row of scaled scores. The gradients of q, k and v use the strides whose
/// names begin with `dq`, `dk` and `dv`.
typedef struct heddle_rt_attention_desc {
  int64_t batch, queries, keys, groups, group_size, head;
  int64_t q_batch_stride, q_row_stride, q_group_stride, q_head_stride;
  int64_t k_batch_stride, k_row_stride, k_group_stride;
  int64_t v_batch_stride, v_row_stride, v_group_stride;
  int64_t dq_batch_stride, dq_row_stride, dq_group_stride, dq_head_stride;
  int64_t dk_batch_stride, dk_row_stride, dk_group_stride;
  int64_t dv_batch_stride, dv_row_stride, dv_group_stride;
  int32_t type;   ///< heddle_rt_dtype of q, k, v, o and their gradients
  int32_t causal; ///< query i sees the keys j <= i (global positions)
  float scale;
  /// The rate at which probabilities are dropped; 0 for none. Let e be the
  /// row-major index of element (b, i, g, r, j) in the global tensor [batch,
  /// groups, group_size, queries, keys], where all indices are global.
  /// Philox4x32-10 of the counter (e / 4 low, e / 4 high, step, op_id) under
  /// the key `seed` gives four words. The element is dropped if word e % 4 is
  /// below dropout * 2^32, else divided by 1 - dropout. So sharding does not
  /// change which elements are dropped.
  float dropout;
  uint64_t seed;
  uint32_t op_id;
  /// Keys at global positions from global_keys on are padding: no query sees
  /// them, whatever they hold, and their gradients are zero.
  int64_t global_queries, global_keys, global_groups, global_group_size;
  /// A query sees the keys whose global position differs from its own by less
  /// than `window`; 0 for no window.
  int64_t window;
  /// The element of (b, i, g, r, j) in the mask, where all indices are local
  /// except for the key's, which is global. A stride of 0 repeats.
  int64_t mask_batch_stride, mask_row_stride, mask_group_stride,
      mask_head_stride, mask_key_stride;
  int32_t mask_kind; ///< heddle_rt_attention_mask
} heddle_rt_attention_desc;

/// Global index of the device's first element along each dimension. Calls copy
/// it before they return.
typedef struct heddle_rt_attention_offsets {
  int64_t batch, query, key, group, group_member;
} heddle_rt_attention_offsets;

/// `step` points to the i64 step number and may be null without dropout. The
/// number is read when the call runs on its stream. `mask` may be null if the
/// descriptor has no mask. `offsets` is copied before the call returns.
heddle_rt_status heddle_rt_attention(heddle_rt_device *device, int32_t stream,
                                     const heddle_rt_attention_desc *desc,
                                     const heddle_rt_attention_offsets *offsets,
                                     const int64_t *step, const void *mask,
                                     const void *q, const void *k,
                                     const void *v, void *o, float *lse);

heddle_rt_status
heddle_rt_attention_grad(heddle_rt_device *device, int32_t stream,
                         const heddle_rt_attention_desc *desc,
                         const heddle_rt_attention_offsets *offsets,
                         const int64_t *step, const void *mask, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, const void *d_o, void *dq, void *dk,
                         void *dv);

/// An attention of the programs, or the gradient of an attention. The library
/// may export `const heddle_rt_attention_call heddle_attentions[]`, an entry
/// for each descriptor that a call takes and then one with a null descriptor.
/// Then a device chooses its algorithms, and knows their memory, before a
/// program runs.
typedef struct heddle_rt_attention_call {
  const heddle_rt_attention_desc *desc;
  int64_t is_gradient; ///< not 0: of heddle_rt_attention_grad
} heddle_rt_attention_call;

/// table_grad[id - first_row, :] (+)= rows[i, :] for every i whose id = ids[i]
/// lies in [first_row, first_row + table_rows). Rows with equal ids are added
/// in the order of i. If `accumulate` is 0, the table is zeroed first. `ids`
/// are i32, `rows` have the type `type`, the table is f32.
heddle_rt_status heddle_rt_embedding_grad(heddle_rt_device *device,
                                          int32_t stream, const int32_t *ids,
                                          int64_t num_ids, const void *rows,
                                          int32_t type, int64_t width,
                                          int64_t first_row, int64_t table_rows,
                                          int32_t accumulate,
                                          float *table_grad);

/// Computes the cosine and the sine of position * frequencies[j] for the
/// positions first .. first + rows - 1. Both tables are f32 [rows, half].
/// Angles are computed in double precision.
heddle_rt_status heddle_rt_rotary_table(heddle_rt_device *device,
                                        int32_t stream,
                                        const double *frequencies, int64_t half,
                                        int64_t first, int64_t rows, float *cos,
                                        float *sin);

/// Copies `blocks` runs of `bytes` bytes each. A stride is the distance in
/// bytes from the start of one run to the next.
heddle_rt_status heddle_rt_copy(heddle_rt_device *device, int32_t stream,
                                const void *from, int64_t from_stride_bytes,
                                void *to, int64_t to_stride_bytes,
                                int64_t blocks, int64_t bytes);

heddle_rt_status heddle_rt_fill_zero(heddle_rt_device *device, int32_t stream,
                                     void *to, int64_t bytes);

//===----------------------------------------------------------------------===//
// Collectives: `group` is an index into the manifest's groups (sets of mesh
// axes). The members are ordered by their coordinates along the group's axes,
// the first axis slowest. The n-th collective of a group on a stream meets the
// n-th collective that the other members issue for this group on their streams
// of the same number.
//
// Buffers are contiguous. `count` is the number of elements that one member
// gives to another one, or that every member has. The input and the output of
// all_reduce and broadcast may be the same buffer. Those of the other
// collectives must not overlap.
//
// Order of sums: a backend reduces every element in an order that depends only
// on the kind of collective, the group's size, the count and the type. So all
// members get the same bits, and every run gets them again. bf16 and f16 are
// summed in f32 and rounded once. The CPU backend sums in the order of the
// members; then the bits do not depend on the kind or the count either.
//===----------------------------------------------------------------------===//

heddle_rt_status heddle_rt_all_reduce(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t reduction,
                                      int32_t type, const void *in, void *out,
                                      int64_t count);

/// Gathers the members' inputs of `count` elements: `out` holds them one after
/// the other, in the order of the members.
heddle_rt_status heddle_rt_all_gather(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out, int64_t count);

/// Reduces inputs of members * count elements. Member i gets the elements
/// [i * count, (i + 1) * count) of the result.
heddle_rt_status heddle_rt_reduce_scatter(heddle_rt_device *device,
                                          int32_t stream, int32_t group,
                                          int32_t reduction, int32_t type,
                                          const void *in, void *out,
                                          int64_t count);

/// Exchanges blocks of `count` elements. `in` and `out` hold one block for each
/// member. Block j of member i's input becomes block i of member j's output.
heddle_rt_status heddle_rt_all_to_all(heddle_rt_device *device, int32_t stream,
                                      int32_t group, int32_t type,
                                      const void *in, void *out, int64_t count);

/// `root` is a member's index in the group.
heddle_rt_status heddle_rt_broadcast(heddle_rt_device *device, int32_t stream,
                                     int32_t group, int32_t root, int32_t type,
                                     const void *in, void *out, int64_t count);

/// Member i receives the input of member sources[i]; -1 gives zeros.
heddle_rt_status heddle_rt_permute(heddle_rt_device *device, int32_t stream,
                                   int32_t group, const int32_t *sources,
                                   int32_t type, const void *in, void *out,
                                   int64_t count);

/// Sends to member `peer`. The stream passes the call when `from` may be
/// overwritten. That may be before the peer receives, because no send waits for
/// its receive. Messages from one member to another on their streams of the
/// same number arrive in the order in which they were sent.
heddle_rt_status heddle_rt_send(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                const void *from, int64_t count);
/// Receives the next message of member `peer`.
heddle_rt_status heddle_rt_recv(heddle_rt_device *device, int32_t stream,
                                int32_t group, int32_t peer, int32_t type,
                                void *to, int64_t count);

//===----------------------------------------------------------------------===//
// Order between streams. Events are numbered from 0 within a program. An event
// may be recorded again, also on another stream: a wait refers to the latest
// record that was issued before the wait. A wait for an event that was never
// recorded is over at once.
//===----------------------------------------------------------------------===//

heddle_rt_status heddle_rt_event_record(heddle_rt_device *device,
                                        int32_t stream, int32_t event);
heddle_rt_status heddle_rt_event_wait(heddle_rt_device *device, int32_t stream,
                                      int32_t event);
/// Waits until all streams are idle. A host calls it before it reads what a
/// program has written, and a program before it reads a loop's condition.
/// Programs do not end with it: a program function issues calls and returns.
heddle_rt_status heddle_rt_synchronize(heddle_rt_device *device);

#ifdef __cplusplus
}
#endif

#endif // HEDDLE_RT_ABI_H
