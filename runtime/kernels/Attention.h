//===- Attention.h - Attention in linear memory -------------------*- C++
//-*-===//

#ifndef HEDDLE_RT_KERNELS_ATTENTION_H
#define HEDDLE_RT_KERNELS_ATTENTION_H

namespace heddle::rt {

struct AttentionKernels;

} // namespace heddle::rt

#endif // HEDDLE_RT_KERNELS_ATTENTION_H
