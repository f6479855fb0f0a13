//===- Attention.cpp - Attention of a rank on a GPU -----------------------===//

#include "backends/cuda/attention/Attention.h"
#include "heddle_rt/tensors.h"
#include "support/Message.h"

#include <algorithm>

namespace heddle::runtime::cuda {

AttentionChoice parseAttentionChoice(std::string_view text) {
  return text == "cudnn"    ? AttentionChoice::Cudnn
         : text == "kernel" ? AttentionChoice::Kernel
                            : AttentionChoice::Auto;
}

static std::string describe(const heddle_rt_attention_desc &desc,
                            AttentionPass pass) {
  return concat(pass == AttentionPass::Backward ? "gradient of " : "",
                "attention of ", desc.batch, " x ",
                desc.groups * desc.group_size, " heads of ",
                name(DType(desc.type)), ", ", desc.queries, " x ", desc.keys,
                " x ", desc.head);
}

AttentionLibrary::~AttentionLibrary() {
  plans.clear();
  if (handle)
    library->destroy(handle);
}

Expected<AttentionPlan>
AttentionLibrary::makePlan(const heddle_rt_attention_desc &desc,
                           AttentionPass pass) {
  if (!library) {
    Expected<const dnn::Cudnn *> loaded = device.gpu().attention();
    HEDDLE_RT_RETURN_IF_ERROR(loaded.status());
    library = *loaded;
  }
  if (!handle)
    HEDDLE_RT_RETURN_IF_ERROR(
        library->check(library->create(&handle), "cudnnCreate"));
  Expected<AttentionPlan> made =
      AttentionPlan::make(*library, {handle, nullptr}, desc, pass);
  if (!made.ok())
    return std::move(made).status().in(describe(desc, pass));
  return made;
}

Expected<const AttentionPlan *>
AttentionLibrary::plan(const heddle_rt_attention_desc &desc,
                       AttentionPass pass) {
  auto [place, isNew] = plans.try_emplace({&desc, pass});
  std::optional<AttentionPlan> &known = place->second;
  if (isNew) {
    Expected<AttentionPlan> made = makePlan(desc, pass);
    if (made.ok()) {
      known.emplace(std::move(*made));
      mostBytes = std::max(mostBytes, known->workspaceBytes());
    } else if (choice == AttentionChoice::Cudnn) {
      plans.erase(place);
      return std::move(made).status().in(
          "the model was compiled with --gpu-attention=cudnn");
    } else {
      device.gpu().remarkOnAttention(made.message());
    }
  }
  return known ? &*known : nullptr;
}

/// The error if cuDNN alone is chosen and cannot compute an attention.
static Status refuse(const heddle_rt_attention_desc &desc, AttentionPass pass,
                     std::string_view obstacle) {
  return errorOf(describe(desc, pass),
                 ": the model was compiled with "
                 "--gpu-attention=cudnn, and cuDNN does not serve this one, "
                 "because ",
                 obstacle, ": compile it with auto");
}

Status AttentionLibrary::prepare(const heddle_rt_attention_call *calls) {
  if (!calls || choice == AttentionChoice::Kernel)
    return Status::success();
  for (; calls->desc; ++calls) {
    AttentionPass pass =
        calls->is_gradient ? AttentionPass::Backward : AttentionPass::Forward;
    // Offsets are known only when a call runs.
    std::string obstacle = findObstacle(*calls->desc, {});
    if (obstacle.empty())
      HEDDLE_RT_RETURN_IF_ERROR(plan(*calls->desc, pass).status());
    else if (choice == AttentionChoice::Cudnn)
      return refuse(*calls->desc, pass, obstacle);
  }
  return Status::success();
}

Expected<void *> AttentionLibrary::workspaceOf(int32_t stream, size_t bytes) {
  auto &[address, size] = workspaces[stream];
  if (size < bytes) {
    Expected<Address> memory = device.reserve(std::max(bytes, mostBytes));
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    address = reinterpret_cast<void *>(*memory);
    size = std::max(bytes, mostBytes);
  }
  return address;
}

/// Returns true if all addresses are multiples of 16, because the library may
/// load 16 bytes at once.
static bool isAligned(const AttentionOperands &operands) {
  return std::ranges::all_of(
      std::initializer_list<const void *>{
          operands.q, operands.k, operands.v, operands.o, operands.lse,
          operands.d_o, operands.dq, operands.dk, operands.dv},
      [](const void *pointer) {
        return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
      });
}

Expected<bool> AttentionLibrary::run(int32_t stream, AttentionPass pass,
                                     const heddle_rt_attention_desc &desc,
                                     const heddle_rt_attention_offsets &offsets,
                                     const AttentionOperands &operands) {
  if (choice == AttentionChoice::Kernel)
    return false;
  std::string obstacle = findObstacle(desc, offsets);
  if (obstacle.empty() && !isAligned(operands))
    obstacle = "an operand does not begin at a multiple of 16 bytes";
  if (!obstacle.empty()) {
    if (choice == AttentionChoice::Cudnn)
      return refuse(desc, pass, obstacle);
    return false;
  }
  Expected<const AttentionPlan *> found = plan(desc, pass);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  if (!*found)
    return false;
  void *workspace = nullptr;
  if (size_t bytes = (*found)->workspaceBytes()) {
    Expected<void *> memory = workspaceOf(stream, bytes);
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    workspace = *memory;
  }
  HEDDLE_RT_RETURN_IF_ERROR(library->check(
      library->setStream(handle, device.stream(stream)), "cudnnSetStream"));
  HEDDLE_RT_RETURN_IF_ERROR(
      (*found)->run(handle, operands, workspace).in(describe(desc, pass)));
  return true;
}

} // namespace heddle::runtime::cuda
