//===- ThreadPoolTest.cpp - Work shared by threads ------------------------===//

#include "backends/cpu/threads/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using heddle::runtime::ThreadPool;

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (bool spin : {false, true})
    for (int threads : {1, 2, 5}) {
      ThreadPool pool(threads, spin);
      EXPECT_EQ(pool.size(), threads);
      for (int64_t chunks : {0, 1, 2, 3, 100}) {
        std::vector<int> counts(static_cast<size_t>(chunks));
        std::atomic<bool> badWorker{false};
        pool.run(chunks, [&](int64_t chunk, int worker) {
          ++counts[size_t(chunk)]; // no race: each chunk has its own counter
          if (worker < 0 || worker >= threads)
            badWorker = true;
        });
        EXPECT_FALSE(badWorker);
        for (int count : counts)
          EXPECT_EQ(count, 1);
      }
    }
}

TEST(ThreadPool, WaitsForWorkersThatAreLate) {
  for (bool spin : {false, true}) {
    ThreadPool pool(3, spin);
    int late = 0;
    for (int job = 0; job < 20; ++job) {
      int64_t done[8] = {};
      bool byWorker[8] = {};
      pool.run(8, [&](int64_t chunk, int worker) {
        // A chunk takes the caller 2 ms and a worker 5 ms. So the caller does
        // not do all chunks itself, and ends before the workers.
        std::this_thread::sleep_for(
            std::chrono::milliseconds(worker == 0 ? 2 : 5));
        byWorker[chunk] = worker != 0;
        done[chunk] = chunk + 1;
      });
      for (int64_t chunk = 0; chunk < 8; ++chunk) {
        EXPECT_EQ(done[chunk], chunk + 1) << "job " << job;
        late += byWorker[chunk];
      }
    }
    EXPECT_GT(late, 0);
  }
}

TEST(ThreadPool, ManyShortJobsInARow) {
  ThreadPool pool(3, false);
  std::atomic<int64_t> sum{0};
  for (int job = 0; job < 2000; ++job)
    pool.run(4, [&](int64_t chunk, int) { sum += chunk; });
  EXPECT_EQ(sum.load(), 2000 * 6);
}

TEST(ThreadPool, RangesCoverAllWithoutOverlap) {
  ThreadPool pool(2, false);
  std::vector<int> counts(1000);
  pool.forRanges(1000, 77, [&](int64_t begin, int64_t end) {
    EXPECT_LE(end - begin, 77);
    for (int64_t i = begin; i < end; ++i)
      ++counts[size_t(i)];
  });
  EXPECT_EQ(counts, std::vector<int>(1000, 1));
}
