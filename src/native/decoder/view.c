#include <stdlib.h>
#include <string.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

int64_t view_bytes(const View *view) {
  return view->head_bytes + (view->body.end - view->body.start) + view->tail_bytes;
}

void view_free(View *view) {
  free(view->head);
  free(view->tail);
  *view = (View){0};
}

/* Returns the length of the tag at the end of a part: ID3v1, APE, or ID3v2.4 with a footer; 0 when there is none. */
static int64_t tag_bytes(const Source *source, Part part) {
  uint8_t tag[128] = {0};
  int64_t left = part.end - part.start;
  if (left < (int64_t)sizeof tag) return 0;
  source_read(source, part.end - (int64_t)sizeof tag, part.end, tag, sizeof tag);
  if (!memcmp(tag, "TAG", 3)) return sizeof tag;
  const uint8_t *ape = tag + sizeof tag - 32, *id3 = tag + sizeof tag - 10;
  int64_t bytes = 0;
  if (!memcmp(ape, "APETAGEX", 8)) bytes = (int64_t)AV_RL32(ape + 12) + (AV_RL32(ape + 20) >> 31 ? 32 : 0);
  if (!memcmp(id3, "3DI", 3)) bytes = 20 + (id3[6] << 21 | id3[7] << 14 | id3[8] << 7 | id3[9]);
  return bytes <= left ? bytes : 0;
}

View view_of(const Source *source, Part part) {
  uint8_t head[4] = {0};
  /* In a stream without container, libav would take a tag at its end for a part of its last frame. */
  for (int64_t bytes; (bytes = tag_bytes(source, part)) > 0;) part.end -= bytes;
  View view = {.body = part};
  source_read(source, part.start, part.end, head, sizeof head);
  if (!memcmp(head, "OggS", 4)) view_of_ogg(source, part, &view);
  else view_of_samples(source, part, &view);
  return view;
}
