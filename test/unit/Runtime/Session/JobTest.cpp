//===- JobTest.cpp - The processes that run one artifact ------------------===//
//
// Members of a job are threads here (see World.h).
// test/Driver/Processes/processes.test and bench/faults have real processes.
//
//===----------------------------------------------------------------------===//

#include "../Communicators/World.h"
#include "TestArtifact.h"
#include "heddle_rt/checksum.h"
#include "heddle_rt/session.h"
#include "processes/Sha256.h"
#include "support/Message.h"

#include <cstdlib>
#include <cstring>
#include <random>

#include <sys/socket.h>

using namespace heddle::runtime;

namespace {

std::string hex(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

TEST(Sha256, KnownDigests) {
  // FIPS 180-4, and RFC 4231, test case 2.
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a"
                                "9cb410ff61f20015ad");
  EXPECT_EQ(
      hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Checksum, KnownValuesInAnyPieces) {
  auto of = [](std::string_view text, size_t piece) {
    Checksum sum;
    for (size_t at = 0; at < text.size(); at += piece)
      sum.update(std::as_bytes(std::span(text.substr(at, piece))));
    return sum.value();
  };
  EXPECT_EQ(of("", 1), 0xef46db3751d8e999u);
  EXPECT_EQ(of("abc", 1), 0x44bc2cf5ad770999u);
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = char(i * 7);
  for (size_t piece : {1, 3, 31, 32, 33, 64, 100})
    EXPECT_EQ(of(text, piece), of(text, text.size()));
}

class JobTest : public testing::Test {
protected:
  void SetUp() override {
    if (!checkGloo().ok())
      GTEST_SKIP() << checkGloo().message();
  }
};

/// Calls body(i) on a thread for each member.
template <typename Body>
void onEach(std::vector<std::shared_ptr<Job>> &jobs, Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs.size(); ++i)
    threads.emplace_back([&, i] { body(*jobs[i]); });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(JobTest, MembersExchangeBytes) {
  auto jobs = joinAll(3);
  onEach(jobs, [](Job &job) {
    std::string mine(size_t(job.process()) * 1000, char('a' + job.process()));
    for (int repeat = 0; repeat < 5; ++repeat) {
      auto all = job.allGather(std::as_bytes(std::span(mine)));
      ASSERT_TRUE(all.ok()) << all.message();
      for (size_t i = 0; i < 3; ++i)
        ASSERT_EQ((*all)[i], std::vector(i * 1000, std::byte('a' + int(i))));
      auto text = job.fromFirst(job.process() == 0 ? "first" : "other");
      ASSERT_TRUE(text.ok());
      ASSERT_EQ(*text, "first");
      ASSERT_TRUE(*job.any(job.process() == 2));
      ASSERT_FALSE(*job.any(false));
    }
    EXPECT_EQ(job.processesOnHost(), 3);
    job.leave();
  });
}

TEST_F(JobTest, TheFirstFailureIsEverybodys) {
  auto jobs = joinAll(3);
  onEach(jobs, [](Job &job) {
    if (job.process() == 0) {
      auto result = job.allGather({}); // the others never call it
      EXPECT_FALSE(result.ok());
    } else {
      (void)job.fail(error(concat("out of luck ", job.process())));
    }
  });
  std::string first(jobs[0]->awaitFailure(std::chrono::seconds(1)).message());
  EXPECT_TRUE(first == "out of luck 1" || first == "out of luck 2") << first;
  for (auto &job : jobs)
    EXPECT_EQ(job->awaitFailure(std::chrono::seconds(1)).message(), first);
}

TEST_F(JobTest, AMemberThatLeavesEarlyIsNamed) {
  auto jobs = joinAll(3);
  jobs[1].reset();
  for (size_t i : {0, 2})
    EXPECT_EQ(jobs[i]->awaitFailure(std::chrono::seconds(1)).message(),
              "process 1 has left the job before its end");
}

TEST_F(JobTest, GarbageAtTheDoorDoesNotDisturb) {
  Expected<Socket> listener = listenAt("127.0.0.1", 0);
  int port = portOf(*listener);
  std::vector<std::shared_ptr<Job>> jobs(2);
  auto join = [&](int32_t process) {
    JobOptions options;
    options.process = process;
    options.processes = 2;
    options.port = port;
    options.listener = process == 0 ? ::dup(listener->descriptor()) : -1;
    options.key = "a secret";
    auto job = Job::join(options);
    ASSERT_TRUE(job.ok()) << job.message();
    jobs[size_t(process)] = *job;
  };
  std::thread first([&] { join(0); });
  std::minstd_rand random(1);
  Deadline deadline =
      std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::vector<Socket> open; // some stay connected and say nothing
  for (int i = 0; i < 200; ++i) {
    Expected<Socket> guest = connectTo("127.0.0.1", port, deadline);
    ASSERT_TRUE(guest.ok()) << guest.message();
    std::string bytes(random() % 200, '\0');
    for (char &byte : bytes)
      byte = char(random());
    if (i % 2) // nearly right
      std::string_view("heddle 1").copy(bytes.data(), bytes.size());
    (void)guest->write(bytes.data(), bytes.size(), deadline);
    if (i < 10)
      open.push_back(std::move(*guest));
  }
  // A process with another key is refused.
  JobOptions wrong;
  wrong.process = 1;
  wrong.processes = 2;
  wrong.port = port;
  wrong.key = "another secret";
  auto refused = Job::join(wrong);
  EXPECT_EQ(refused.message(),
            concat("cannot join the job at 127.0.0.1:", port,
                   " as process 1: process 0 has another key "
                   "(HEDDLE_JOB_KEY)"));
  join(1);
  first.join();
  onEach(jobs, [](Job &job) {
    EXPECT_TRUE(job.any(true).ok());
    job.leave();
  });
}

TEST_F(JobTest, WhoIsMissingIsNamed) {
  JobOptions options;
  options.processes = 3;
  options.key = "a secret";
  options.joinTimeout = std::chrono::milliseconds(200);
  EXPECT_EQ(Job::join(options).message(),
            "process 1, 2 of 3 did not join the job within 0.2 s");
  options.address = "0.0.0.0";
  options.key = "";
  EXPECT_TRUE(std::string(Job::join(options).message())
                  .starts_with("expected a secret in HEDDLE_JOB_KEY"));
}

TEST(JobEnvironment, OfLaunchers) {
  const char *names[] = {"RANK",
                         "WORLD_SIZE",
                         "MASTER_ADDR",
                         "MASTER_PORT",
                         "SLURM_PROCID",
                         "SLURM_STEP_NUM_TASKS",
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE",
                         "HEDDLE_JOB_KEY"};
  auto clear = [&] {
    for (const char *name : names)
      ::unsetenv(name);
  };
  clear();
  EXPECT_FALSE(jobFromEnvironment()->has_value());
  ::setenv("SLURM_PROCID", "2", 1);
  ::setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_TRUE(std::string(jobFromEnvironment().message())
                  .find("expected the address of process 0") !=
              std::string::npos);
  ::setenv("MASTER_ADDR", "node1", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  auto job = jobFromEnvironment();
  ASSERT_TRUE(job.ok() && *job);
  EXPECT_EQ((*job)->process, 2);
  EXPECT_EQ((*job)->processes, 4);
  EXPECT_EQ((*job)->address, "node1");
  EXPECT_EQ((*job)->port, 29500);
  ::unsetenv("SLURM_PROCID");
  ::unsetenv("SLURM_STEP_NUM_TASKS");
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  job = jobFromEnvironment();
  ASSERT_TRUE(job.ok() && *job);
  EXPECT_EQ((*job)->process, 1);
  EXPECT_EQ((*job)->processes, 3);
  ::setenv("MASTER_PORT", "99777", 1);
  EXPECT_EQ(jobFromEnvironment().message(),
            "environment variable MASTER_PORT: expected a port of at most "
            "65535, got 99777");
  ::setenv("RANK", "7", 1);
  EXPECT_EQ(jobFromEnvironment().message(),
            "environment variable RANK is set: expected WORLD_SIZE, too, or "
            "neither");
  ::setenv("WORLD_SIZE", "4", 1);
  EXPECT_EQ(jobFromEnvironment().message(),
            "environment variable RANK: expected a number below WORLD_SIZE, 4, "
            "got 7");
  clear();
}

TEST_F(JobTest, SessionsOfTwoProcessesShareTheWork) {
  TestArtifact artifact;
  auto jobs = joinAll(2);
  onEach(jobs, [&](Job &job) {
    SessionOptions options;
    options.job = std::shared_ptr<Job>(&job, [](Job *) {});
    auto session = Session::load(artifact.path, options);
    ASSERT_TRUE(session.ok()) << session.message();
    EXPECT_EQ((*session)->numDevices(), 2);
    // Rows 0 and 1 are of ranks 0 and 1.
    using Rows = std::vector<std::pair<int64_t, int64_t>>;
    int64_t first = job.process() * 2;
    EXPECT_EQ((*session)->localRows(0, 0), (Rows{{first, first + 2}}));
    std::vector<float> whole(30), other(30);
    ASSERT_TRUE(
        (*session)->readVariable("weight", writableBytesOf(whole)).ok());
    ASSERT_TRUE((*session)->checkReplicas().ok());
    for (size_t i = 0; i < whole.size(); ++i)
      whole[i] = float(i);
    ASSERT_TRUE((*session)->writeVariable("weight", bytesOf(whole)).ok());
    ASSERT_TRUE(
        (*session)->readVariable("weight", writableBytesOf(other)).ok());
    EXPECT_EQ(other, whole);
    ASSERT_TRUE((*session)->checkReplicas().ok());
    size_t owned = 0;
    for (const OwnedBlock &block : (*session)->ownedBlocks()) {
      if ((*session)->manifest().tensors[block.tensor].name != "weight")
        continue;
      std::vector<float> part(size_t(block.shape[0] * block.shape[1]));
      ASSERT_TRUE(
          (*session)
              ->readBlock(block, 0, int64_t(part.size()), writableBytesOf(part))
              .ok());
      for (size_t i = 0; i < part.size(); ++i)
        EXPECT_EQ(part[i],
                  float((block.start[0] + int64_t(i) / block.shape[1]) * 6 +
                        block.start[1] + int64_t(i) % block.shape[1]));
      owned += part.size();
    }
    EXPECT_EQ(owned, job.process() == 0 ? 18u : 12u); // 3 and 2 rows of 6
    job.leave();
  });
}

} // namespace
