#include <string.h>
#include <unistd.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

/*
 * Files of QCELP and EVRC, the codecs of CDMA phones (RFC 3625). Each frame has 20 ms and begins with a byte that names its
 * rate, which a table of the head maps to its size. Blank frames have no more bytes. Neither have frames that were lost on
 * the way, whose rate the table need not have; libav leaves them out. Here they are read as blank ones.
 */

#define CHUNKS_AT 12
#define RATE_COUNT_AT 130
#define MAX_RATES 8
#define BLANK 0
#define LOST 14
#define RATES 16
#define BLOCK_BYTES 65536
/* Of more lost frames than 13 hours have, the rest is left out. */
#define MAX_LOST_FRAMES (13 * 3600 * 50)

/* Reads the bytes that follow the byte of each rate, -1 for unknown ones. False: the file is of another kind. */
static bool read_sizes(const Source *source, int *sizes) {
  uint8_t head[RATE_COUNT_AT + 4 + 2 * MAX_RATES];
  if (pread(source->fd, head, sizeof head, 0) != sizeof head) return false;
  if (memcmp(head, "RIFF", 4) || memcmp(head + 8, "QLCMfmt ", 8)) return false;
  for (int rate = 0; rate < RATES; rate++) sizes[rate] = -1;
  uint32_t count = AV_RL32(head + RATE_COUNT_AT);
  for (uint32_t index = 0; index < count && index < MAX_RATES; index++) {
    const uint8_t *entry = head + RATE_COUNT_AT + 4 + 2 * index;
    if (entry[1] < RATES) sizes[entry[1]] = entry[0];
  }
  return sizes[BLANK] == 0 && sizes[LOST] < 0;
}

/* Goes through the frames from `start` on, and replaces the bytes of lost ones. */
static bool mend_frames(Source *source, const int *sizes, int64_t start, int64_t end) {
  uint8_t block[BLOCK_BYTES];
  int64_t block_at = 0, filled = 0;
  for (int64_t at = start; at < end; at++) {
    if (at >= block_at + filled) {
      block_at = at;
      filled = pread(source->fd, block, sizeof block, at);
      if (filled <= 0) return true;
    }
    int rate = block[at - block_at];
    Patch patch = {.at = at, .bytes = {BLANK}, .length = 1};
    if (rate == LOST && source->patch_count < MAX_LOST_FRAMES && !source_replace(source, patch)) return false;
    if (rate < RATES && sizes[rate] > 0) at += sizes[rate];
  }
  return true;
}

bool qcp_mend(Source *source) {
  int sizes[RATES];
  uint8_t head[8];
  if (!read_sizes(source, sizes)) return true;
  for (int64_t at = CHUNKS_AT; pread(source->fd, head, sizeof head, at) == sizeof head;) {
    int64_t start = at + (int64_t)sizeof head, bytes = AV_RL32(head + 4);
    if (!memcmp(head, "data", 4)) return mend_frames(source, sizes, start, start + bytes);
    at = start + bytes + bytes % 2;
  }
  return true;
}
