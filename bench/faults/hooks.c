// Stops one process of a job inside a collective or inside the writing of a
// checkpoint. faults.py preloads it into the processes (LD_PRELOAD).
//
//   FAULTS_AT=2:writev:57   process 2 stops (SIGSTOP) in its 57th message:
//                           Gloo sends each with writev
//   FAULTS_AT=2:fsync:3     in its third fsync: of a part of a checkpoint, of
//                           its index, or of the folder
//   FAULTS_COUNT=FILE       each process writes the numbers of its messages and
//                           of its fsyncs to FILE.RANK at its end

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { Message, Sync, Kinds };
static const char *const names[Kinds] = {"writev", "fsync"};
static atomic_long counts[Kinds];
static long stopAt[Kinds];

__attribute__((constructor)) static void readEnvironment(void) {
  const char *place = getenv("FAULTS_AT"), *rank = getenv("RANK");
  long process, number;
  char name[16];
  if (!place || !rank ||
      sscanf(place, "%ld:%15[a-z]:%ld", &process, name, &number) != 3 ||
      process != atol(rank))
    return;
  for (int kind = 0; kind < Kinds; ++kind)
    if (strcmp(name, names[kind]) == 0)
      stopAt[kind] = number;
}

__attribute__((destructor)) static void writeCounts(void) {
  const char *file = getenv("FAULTS_COUNT"), *rank = getenv("RANK");
  char path[4096];
  if (!file || !rank)
    return;
  snprintf(path, sizeof path, "%s.%s", file, rank);
  FILE *out = fopen(path, "w");
  if (!out)
    return;
  fprintf(out, "%ld %ld\n", counts[Message], counts[Sync]);
  fclose(out);
}

static void count(int kind) {
  if (atomic_fetch_add(&counts[kind], 1) + 1 == stopAt[kind])
    kill(getpid(), SIGSTOP);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real)
    real =
        (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
  count(Message);
  return real(file, parts, number);
}

int fsync(int file) {
  static int (*real)(int);
  if (!real)
    real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  count(Sync);
  return real(file);
}
