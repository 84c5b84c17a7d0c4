// A library to preload: makes one system call on a file fail, once.
//
//   FAIL_CALL   fsync, fdatasync, write, pwrite or rename
//   FAIL_BELOW  only for files whose path starts with this
//   FAIL_AT     the call that fails, counted from 1 over all threads
//   FAIL_ERRNO  what it says
//   FAIL_MARK   a file made when it has failed
//
// and makes a disk slow: with SLOW_BELOW, a prefix of paths, and SLOW_US each write and sync of such a file takes so
// many microseconds more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int below(const char* path) {
  const char* prefix = getenv("FAIL_BELOW");
  return prefix != NULL && strncmp(path, prefix, strlen(prefix)) == 0;
}

static void slow(const char* path) {
  const char* prefix = getenv("SLOW_BELOW");
  const char* us = getenv("SLOW_US");
  if (prefix != NULL && us != NULL && strncmp(path, prefix, strlen(prefix)) == 0) usleep((useconds_t)atol(us));
}

static int fails(const char* call, const char* path) {
  const char* wanted = getenv("FAIL_CALL");
  const char* at = getenv("FAIL_AT");
  const char* error = getenv("FAIL_ERRNO");
  const char* mark = getenv("FAIL_MARK");
  if (wanted == NULL || at == NULL || error == NULL || strcmp(wanted, call) != 0 || !below(path)) return 0;
  if (atomic_fetch_add(&calls, 1) + 1 != atol(at)) return 0;
  if (mark != NULL) {
    const int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
  }
  errno = atoi(error);
  return 1;
}

static int fd_fails(const char* call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof(path) - 1);
  if (n <= 0) return 0;
  path[n] = '\0';
  slow(path);
  return fails(call, path);
}

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "fsync");
  return fd_fails("fsync", fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "fdatasync");
  return fd_fails("fdatasync", fd) ? -1 : real(fd);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "write");
  return fd_fails("write", fd) ? -1 : real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pwrite");
  return fd_fails("pwrite", fd) ? -1 : real(fd, bytes, size, offset);
}

int rename(const char* from, const char* to) {
  static int (*real)(const char*, const char*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "rename");
  return fails("rename", to) ? -1 : real(from, to);
}
