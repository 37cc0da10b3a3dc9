#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decoder.h"

/* 20 ms. In longer recordings it is 40 ms, 80 ms and so on. */
#define FIRST_PEAK_SAMPLES 320
#define MAX_PEAKS (1 << 18)
#define MAX_PEAKS_OF_ALL_LANES (1 << 20)
/* Seconds between two points. When there are too many, every other one is dropped. */
#define FIRST_POINT_S 5.0
#define MAX_POINTS 4096

Failure outline_open(Outline *outline) {
  *outline = (Outline){
      .peak_samples = FIRST_PEAK_SAMPLES,
      .points = malloc(MAX_POINTS * sizeof(Point)),
      .point_s = FIRST_POINT_S,
  };
  return outline->points ? DECODED : NO_MEMORY;
}

void outline_close(Outline *outline) {
  for (int lane = 0; lane < outline->lanes; lane++) free(outline->peaks[lane]);
  free(outline->points);
  *outline = (Outline){0};
}

/* ---- Peaks ---- */

static void halve(Outline *outline) {
  int count = (outline->peak_count + 1) / 2;
  for (int lane = 0; lane < outline->lanes; lane++) {
    uint8_t *peaks = outline->peaks[lane];
    for (int index = 0; index < count; index++) {
      uint8_t first = peaks[2 * index], second = 2 * index + 1 < outline->peak_count ? peaks[2 * index + 1] : 0;
      peaks[index] = first > second ? first : second;
    }
    memset(peaks + count, 0, outline->peak_count - count);
  }
  outline->peak_count = count;
  outline->peak_samples *= 2;
}

static bool has_lane(Outline *outline, int lane) {
  while (outline->lanes <= lane) {
    uint8_t *peaks = calloc(MAX_PEAKS, 1);
    if (!peaks) return false;
    outline->peaks[outline->lanes++] = peaks;
  }
  return true;
}

Failure outline_take(Outline *outline, int lane, int64_t position, const float *samples, int count) {
  if (!has_lane(outline, lane)) return NO_MEMORY;
  while ((position + count - 1) / outline->peak_samples >= MAX_PEAKS) halve(outline);
  for (int done = 0; done < count;) {
    int64_t peak = (position + done) / outline->peak_samples;
    int64_t end = (peak + 1) * outline->peak_samples - position;
    if (end > count) end = count;
    float largest = largest_of(samples + done, end - done);
    uint8_t value = largest >= 1 ? 255 : (uint8_t)lrintf(largest * 255);
    if (value > outline->peaks[lane][peak]) outline->peaks[lane][peak] = value;
    if (peak >= outline->peak_count) outline->peak_count = peak + 1;
    done = end;
  }
  return DECODED;
}

/* ---- Points ---- */

void outline_note(Outline *outline, Point point) {
  if (outline->point_count == MAX_POINTS) {
    outline->point_s *= 2;
    int kept = 0;
    for (int index = 0; index < MAX_POINTS; index += 2) outline->points[kept++] = outline->points[index];
    outline->point_count = kept;
  }
  outline->points[outline->point_count++] = point;
  outline->next_point_s = point.at_s + outline->point_s;
}

/* ---- File ---- */

static bool write_all(int fd, const void *bytes, size_t left) {
  for (const char *from = bytes; left > 0;) {
    ssize_t written = write(fd, from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    from += written;
    left -= written;
  }
  return true;
}

Failure outline_write(Outline *outline, const char *path, int64_t samples) {
  if (!has_lane(outline, 0)) return NO_MEMORY;
  /* Silence at the end has peaks too. */
  while ((samples - 1) / outline->peak_samples >= MAX_PEAKS) halve(outline);
  int64_t wanted = (samples + outline->peak_samples - 1) / outline->peak_samples;
  if (wanted < outline->peak_count) wanted = outline->peak_count;
  outline->peak_count = wanted;
  while ((int64_t)outline->lanes * outline->peak_count > MAX_PEAKS_OF_ALL_LANES) halve(outline);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno == ENOSPC || errno == EDQUOT ? NO_SPACE : BROKEN_SYSTEM;
  char head[256];
  int length = snprintf(head, sizeof head, "{\"peak_samples\": %d, \"peaks\": %d, \"lanes\": %d, \"points\": %d}\n",
                        outline->peak_samples, outline->peak_count, outline->lanes, outline->point_count);
  bool is_written = write_all(fd, head, length);
  for (int lane = 0; lane < outline->lanes && is_written; lane++) {
    is_written = write_all(fd, outline->peaks[lane], outline->peak_count);
  }
  if (is_written) is_written = write_all(fd, outline->points, outline->point_count * sizeof(Point));
  Failure failure = is_written ? DECODED : errno == ENOSPC || errno == EDQUOT ? NO_SPACE : BROKEN_SYSTEM;
  if (close(fd) != 0 && failure == DECODED) failure = BROKEN_SYSTEM;
  return failure;
}
