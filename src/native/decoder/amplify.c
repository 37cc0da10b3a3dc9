#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "decoder.h"

#define BLOCK_SAMPLES 65536

static bool is_silent(const int16_t *samples, ssize_t count) {
  for (ssize_t index = 0; index < count; index++) {
    if (samples[index] != 0) return false;
  }
  return true;
}

Failure amplify_file(const char *path, double factor) {
  static int16_t block[BLOCK_SAMPLES];
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return BROKEN_SYSTEM;
  Failure failure = DECODED;
  int64_t at = 0;
  for (ssize_t bytes; failure == DECODED && (bytes = pread(fd, block, sizeof block, at)) > 1; at += bytes) {
    ssize_t count = bytes / (ssize_t)sizeof(int16_t);
    bytes = count * (ssize_t)sizeof(int16_t);
    if (is_silent(block, count)) continue;
    for (ssize_t index = 0; index < count; index++) {
      double value = rint(block[index] * factor);
      block[index] = value > 32767 ? 32767 : value < -32768 ? -32768 : (int16_t)value;
    }
    if (pwrite(fd, block, bytes, at) != bytes) failure = errno == ENOSPC || errno == EDQUOT ? NO_SPACE : BROKEN_SYSTEM;
  }
  close(fd);
  return failure;
}
