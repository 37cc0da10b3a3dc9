#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

/*
 * An edit list says which stretches of a track's media are played one after the other (ISO/IEC 14496-12 section 8.6.6).
 * A stretch without media is silence: an empty edit, whose media time is -1, or a dwell, whose rate is 0. libav takes an
 * empty edit behind a stretch of media for media from the beginning, and a dwell for media at the usual rate, so that
 * words would be heard twice. Behind the end of the media it finds nothing, which gives silence: so that it looks there,
 * the media times of such edits are replaced while it reads them.
 */

#define BOX_HEAD_BYTES 8
#define LARGE_BOX_HEAD_BYTES 16
/* Of the whole file. A fragmented recording has two for each fragment. */
#define MAX_BOXES 1000000
#define MAX_EDITS 100000
#define MAX_DEPTH 3
/* Behind the end of any media, and far from where sums overflow. */
#define BEHIND_END_32 INT32_MAX
#define BEHIND_END_64 (INT64_C(1) << 48)
#define EMPTY (-1)

typedef struct {
  char type[4];
  int64_t start, end;
} Box;

/* Reads the head of the box at an offset; `start` is behind it. False: no box fits there. */
static bool read_box(const Source *source, int64_t offset, int64_t limit, Box *box) {
  uint8_t head[LARGE_BOX_HEAD_BYTES];
  ssize_t got = pread(source->fd, head, sizeof head, offset);
  if (got < BOX_HEAD_BYTES || offset + BOX_HEAD_BYTES > limit) return false;
  int64_t bytes = AV_RB32(head), head_bytes = BOX_HEAD_BYTES;
  if (bytes == 1 && got == LARGE_BOX_HEAD_BYTES) {
    bytes = AV_RB64(head + BOX_HEAD_BYTES);
    head_bytes = LARGE_BOX_HEAD_BYTES;
  } else if (bytes == 0) {
    bytes = limit - offset;
  }
  if (bytes < head_bytes || bytes > limit - offset) return false;
  memcpy(box->type, head + 4, 4);
  box->start = offset + head_bytes;
  box->end = offset + bytes;
  return true;
}

typedef struct {
  const uint8_t *bytes;
  bool is_large;
} Entry;

static int entry_bytes(bool is_large) { return is_large ? 20 : 12; }

static int64_t media_time(Entry entry) {
  return entry.is_large ? (int64_t)AV_RB64(entry.bytes + 8) : (int32_t)AV_RB32(entry.bytes + 4);
}

static bool is_dwell(Entry entry) { return AV_RB32(entry.bytes + (entry.is_large ? 16 : 8)) == 0; }

static int64_t duration(Entry entry) {
  return entry.is_large ? (int64_t)AV_RB64(entry.bytes) : AV_RB32(entry.bytes);
}

static bool replace_time(Source *source, int64_t offset, Entry entry, bool is_first) {
  Patch patch = {.at = offset + (entry.is_large ? 8 : 4), .length = entry.is_large ? 8 : 4};
  if (entry.is_large) AV_WB64(patch.bytes, is_first ? EMPTY : BEHIND_END_64);
  else AV_WB32(patch.bytes, is_first ? EMPTY : BEHIND_END_32);
  return source_replace(source, patch);
}

/* A movie's time scale, the track whose list is read, and the boxes that may still be looked at. */
typedef struct {
  uint32_t units_per_s, track;
  int *boxes_left;
} Place;

static bool is_silent(Entry entry) { return media_time(entry) < 0 || is_dwell(entry); }

/* Replaces times in a list of `count` entries that begins at `offset`, and notes what it plays. */
static bool mend_entries(Source *source, Place place, int64_t offset, const uint8_t *bytes, int count, bool is_large) {
  int first = -1, last = -1;
  double played = 0;
  for (int index = 0; index < count; index++) {
    Entry entry = {.bytes = bytes + index * entry_bytes(is_large), .is_large = is_large};
    if (!is_silent(entry)) last = index;
    if (!is_silent(entry) && first < 0) first = index;
  }
  /* Some writers give no edit a rate: a dwell is one beside stretches that are played. */
  if (first < 0) return true;
  for (int index = 0; index < count; index++) {
    int at = index * entry_bytes(is_large);
    Entry entry = {.bytes = bytes + at, .is_large = is_large};
    if (index >= first && index <= last) played += (double)duration(entry);
    if (is_silent(entry) && !replace_time(source, offset + at, entry, index < first)) return false;
  }
  if (place.units_per_s == 0) return true;
  return source_note_play(source, (TrackPlay){.list = offset, .track = place.track, .seconds = played / place.units_per_s});
}

/* Takes a box `elst`: version, flags, count, then the entries. */
static bool mend_list(Source *source, Place place, Box box) {
  uint8_t head[8];
  if (pread(source->fd, head, sizeof head, box.start) != sizeof head) return true;
  bool is_large = head[0] == 1;
  int64_t count = AV_RB32(head + 4), offset = box.start + sizeof head, fitting = (box.end - offset) / entry_bytes(is_large);
  if (count > fitting) count = fitting;
  if (count < 2 || count > MAX_EDITS) return true;
  ssize_t wanted = count * entry_bytes(is_large);
  uint8_t *bytes = malloc(wanted);
  if (!bytes) return false;
  bool is_mended = pread(source->fd, bytes, wanted, offset) != wanted ||
                   mend_entries(source, place, offset, bytes, (int)count, is_large);
  free(bytes);
  return is_mended;
}

/* Returns the number at the place of a box `mvhd` or `tkhd` that follows two times, whose size its version decides. */
static uint32_t number_behind_times(const Source *source, Box box) {
  uint8_t bytes[24];
  if (pread(source->fd, bytes, sizeof bytes, box.start) != sizeof bytes) return 0;
  return AV_RB32(bytes + (bytes[0] == 1 ? 20 : 12));
}

/* Goes down to the lists: moov, trak, edts, elst. */
static bool mend_boxes(Source *source, Place place, int64_t start, int64_t end, int depth) {
  static const char *const path[] = {"moov", "trak", "edts", "elst"};
  Box box;
  bool is_mended = true;
  while (is_mended && (*place.boxes_left)-- > 0 && read_box(source, start, end, &box)) {
    if (!memcmp(box.type, "mvhd", 4)) place.units_per_s = number_behind_times(source, box);
    if (!memcmp(box.type, "tkhd", 4)) place.track = number_behind_times(source, box);
    if (!memcmp(box.type, path[depth], 4)) {
      is_mended = depth == MAX_DEPTH ? mend_list(source, place, box)
                                     : mend_boxes(source, place, box.start, box.end, depth + 1);
    }
    start = box.end;
  }
  return is_mended;
}

bool edits_mend(Source *source) {
  static const char *const first[] = {"ftyp", "moov", "mdat", "wide", "free", "skip"};
  int boxes_left = MAX_BOXES;
  Box box;
  if (!read_box(source, 0, source->bytes, &box)) return true;
  for (size_t index = 0; index < sizeof first / sizeof *first; index++) {
    if (!memcmp(box.type, first[index], 4)) return mend_boxes(source, (Place){.boxes_left = &boxes_left}, 0, source->bytes, 0);
  }
  return true;
}
