//===- CudaDevice.h - A rank on a GPU ---------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUDADEVICE_H
#define HEDDLE_RT_BACKENDS_CUDA_CUDADEVICE_H

#include "backends/cuda/attention/Attention.h"
#include "backends/cuda/driver/RankStreams.h"
#include "backends/cuda/products/Products.h"
#include "device/Device.h"

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace heddle::runtime::cuda {

/// A rank that issues its calls on streams of a GPU. The n-th stream of a
/// program is a CUDA stream of its own; an event of a program is a CUDA event.
class CudaDevice final : public heddle_rt_device, public RankStreams {
public:
  CudaDevice(int32_t rank, std::shared_ptr<Card> card,
             std::shared_ptr<const std::vector<LoadedKernel>> kernels,
             int hostThreads);
  ~CudaDevice() override;

  /// Makes the streams.
  Status start(int streams);

  /// Set if calls meet those of other ranks. A graph cannot hold such calls.
  bool hasPeers = false;

  /// Lets the ranks of a session share the measured choices.
  void shareChoices(std::shared_ptr<ProductChoices> choices) {
    products.choices = std::move(choices);
  }

  /// Tells the memory of the program's products, a list that ends with null.
  void expectProducts(const heddle_rt_matmul_desc *const *list) {
    products.expect(list);
  }

  /// Tells the memory of the copies of constants and of tables of launches.
  /// Constants are a part of the program's library, which has so many bytes.
  void expectUploads(const CodeInfo &code, size_t libraryBytes);

  /// Chooses who computes the program's attentions, and makes cuDNN's plans.
  Status prepareAttention(AttentionChoice choice,
                          const heddle_rt_attention_call *calls);

  Card &gpu() const override { return *card; }
  Stream stream(int32_t number) const override {
    return streams[size_t(number)];
  }
  Status checkStream(int32_t number) const;

  Expected<std::unique_ptr<Region>> allocate(size_t bytes) override;
  Status copyToDevice(void *to, const void *from, size_t bytes) override;
  Status copyToHost(void *to, const void *from, size_t bytes) override;
  size_t scratchBytes() const override;
  std::vector<MemoryPart> workspaces() const override;
  Status runOnHost(
      int64_t count, int64_t grain,
      const std::function<Status(int64_t begin, int64_t end)> &body) override;

  Status launch(int32_t stream, heddle_rt_kernel_fn kernel,
                std::span<void *const> buffers, std::span<const int64_t> words,
                int64_t blocks, int64_t grain) override;
  Status launchKernel(int32_t stream, int32_t kernel,
                      std::span<const uint64_t> parameters) override;
  Status matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                const void *a, const void *b, void *c,
                const void *bias) override;
  Status fusedMatmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                     heddle_rt_epilogue epilogue, const void *a, const void *b,
                     void *c, const void *bias, void *extra) override;
  Status attention(int32_t stream, const heddle_rt_attention_desc &desc,
                   const heddle_rt_attention_offsets &offsets,
                   const int64_t *step, const void *mask, const void *q,
                   const void *k, const void *v, void *o, float *lse) override;
  Status attentionGrad(int32_t stream, const heddle_rt_attention_desc &desc,
                       const heddle_rt_attention_offsets &offsets,
                       const int64_t *step, const void *mask, const void *q,
                       const void *k, const void *v, const void *o,
                       const float *lse, const void *d_o, void *dq, void *dk,
                       void *dv) override;
  Status embeddingGrad(int32_t stream, const int32_t *ids, int64_t numIds,
                       const void *rows, int32_t type, int64_t width,
                       int64_t firstRow, int64_t tableRows, bool accumulate,
                       float *tableGrad) override;
  Status rotaryTable(int32_t stream, const double *frequencies, int64_t half,
                     int64_t first, int64_t rows, float *cosines,
                     float *sines) override;
  Status copy(int32_t stream, const void *from, int64_t fromStride, void *to,
              int64_t toStride, int64_t blocks, int64_t bytes) override;
  Status fillZero(int32_t stream, void *to, int64_t bytes) override;
  Status collective(int32_t stream, const Collective &call) override;

  bool waitsInReceives() const override { return true; }
  Status useThread() override { return card->use(); }
  Status recordEvent(int32_t stream, int32_t event) override;
  Status waitEvent(int32_t stream, int32_t event) override;
  Status synchronize() override;

  Expected<bool> beginRun(size_t table) override;
  Status endRun() override;

  /// Returns the address of a copy in the device's memory of bytes that the
  /// host has. Equal bytes have one copy.
  Expected<const void *> upload(const void *from, size_t bytes);
  Expected<const void *> onDevice(const void *pointer, size_t bytes) override;
  /// As `copy`, between any addresses of the device's memory, those of other
  /// ranks included.
  Status copyOnDevice(int32_t stream, const void *from, int64_t fromStride,
                      void *to, int64_t toStride, int64_t blocks,
                      int64_t bytes);
  Expected<Address> reserve(size_t bytes) override;
  Status launchLibrary(int32_t stream, const char *kernel, int64_t blocks,
                       std::span<const uint64_t> arguments) override;

private:
  friend class CudaRegion;

  /// The runs of a table: the first one is issued call by call, the second is
  /// recorded as a graph, and the others launch the graph.
  struct Runs {
    int64_t count = 0;
    GraphExec graph = nullptr;
  };
  /// Returns the CUDA event of an event of a program; null: never recorded.
  Event findEvent(int32_t event) const;
  /// Does the work of `upload`. The caller has locked `copying`.
  Expected<const void *> uploadLocked(const void *from, size_t bytes);
  Status beginCapture();
  Status endCapture(Runs &runs);
  std::shared_ptr<Card> card;
  std::shared_ptr<const std::vector<LoadedKernel>> kernels;
  const int hostThreads;
  std::vector<Stream> streams;
  /// Guards `events`, `reserved` and `reservedBytes`, which the threads of
  /// transfers use too.
  mutable std::mutex mutex;
  std::vector<Event> events;        ///< by number; null: never recorded
  std::vector<Event> captureEvents; ///< fork, then one for each stream
  std::map<size_t, Runs> tables;
  std::optional<size_t> capturing; ///< the table whose run is recorded
  /// The regions' memory.
  std::vector<std::pair<Address, size_t>> regions;
  std::mutex copying; ///< guards the two maps below; taken before `mutex`
  std::unordered_map<std::string, Address> uploads;             ///< by content
  std::map<std::pair<const void *, size_t>, Address> constants; ///< by place
  std::vector<Address> reserved;
  size_t reservedBytes = 0;
  size_t uploadBytes = 0; ///< that are expected, at most
  ProductLibrary products;
  AttentionLibrary attentions;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_CUDADEVICE_H
