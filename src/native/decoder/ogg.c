#include <stdlib.h>
#include <string.h>

#include <libavutil/crc.h>
#include <libavutil/intreadwrite.h>

#include "decoder.h"

int64_t ogg_page_bytes(const Source *source, int64_t at, int64_t end, uint8_t *page) {
  int64_t got = source_read(source, at, end, page, OGG_HEAD_BYTES + 255);
  if (got < OGG_HEAD_BYTES || memcmp(page, "OggS", 4) || got < OGG_HEAD_BYTES + page[26]) return 0;
  int64_t bytes = OGG_HEAD_BYTES + page[26];
  for (int segment = 0; segment < page[26]; segment++) bytes += page[OGG_HEAD_BYTES + segment];
  return bytes;
}

static uint32_t checksum_of(const uint8_t *page, int64_t bytes) {
  return av_crc(av_crc_get_table(AV_CRC_32_IEEE), 0, page, bytes);
}

bool ogg_page_is_sound(const Source *source, int64_t at, int64_t end, int64_t bytes, uint8_t *page) {
  if (source_read(source, at, end, page, bytes) < bytes) return false;
  uint32_t claimed = AV_RB32(page + 22);
  AV_WB32(page + 22, 0);
  return checksum_of(page, bytes) == claimed;
}

/* ---- The end ---- */

/* The pages at the end of a part. */
typedef struct {
  /* Where the last whole page ends, and what it says. */
  int64_t end;
  bool ends_stream, is_continued;
} LastPage;

/* Finds the last whole page. The bytes that are looked at hold two pages of the largest size. */
static LastPage find_last_page(const Source *source, Part part, uint8_t *page) {
  LastPage last = {.end = part.start};
  int64_t at = part.end - 3 * OGG_PAGE_BYTES;
  for (at = at < part.start ? part.start : at; at < part.end;) {
    int64_t bytes = ogg_page_bytes(source, at, part.end, page);
    if (bytes == 0 || bytes > part.end - at || !ogg_page_is_sound(source, at, part.end, bytes, page)) {
      at = source_find(source, (Part){at + 1, part.end}, "OggS", 4);
      if (at < 0) break;
      continue;
    }
    at += bytes;
    last = (LastPage){.end = at, .ends_stream = (page[5] & OGG_ENDS_STREAM) != 0,
                      .is_continued = page[26] > 0 && page[OGG_HEAD_BYTES + page[26] - 1] == 255};
  }
  return last;
}

/*
 * Makes a whole page of the packets that are whole in a page that breaks off. It keeps its number and its time, and does not
 * end the stream: the end would shorten the sound. libav skips pages that are not whole.
 */
static void mend_page(const Source *source, int64_t at, Part part, uint8_t *page, View *view) {
  int64_t got = source_read(source, at, part.end, page, OGG_PAGE_BYTES);
  int segments = got >= OGG_HEAD_BYTES ? page[26] : 0, kept = 0;
  int64_t room = got - OGG_HEAD_BYTES - segments, bytes = 0, kept_bytes = 0;
  view->body.end = at;
  for (int index = 0; index < segments && bytes <= room; index++) {
    int length = room >= 0 ? page[OGG_HEAD_BYTES + index] : 0;
    bytes += length;
    if (length == 255 || bytes > room) continue;
    kept = index + 1;
    kept_bytes = bytes;
  }
  if (kept == 0) return;
  memmove(page + OGG_HEAD_BYTES + kept, page + OGG_HEAD_BYTES + segments, kept_bytes);
  page[5] &= ~OGG_ENDS_STREAM;
  page[26] = kept;
  view->tail_bytes = OGG_HEAD_BYTES + kept + kept_bytes;
  AV_WB32(page + 22, 0);
  AV_WB32(page + 22, checksum_of(page, view->tail_bytes));
  view->tail = malloc(view->tail_bytes);
  if (view->tail) memcpy(view->tail, page, view->tail_bytes);
  else view->tail_bytes = 0;
}

/*
 * A stream whose last page does not say that it is the last one is whole: Telegram for Android and dumps of live streams
 * write none. It breaks off in a page, in a packet, or in front of bytes that are no page.
 */
void view_of_ogg(const Source *source, Part part, View *view) {
  uint8_t *page = malloc(OGG_PAGE_BYTES);
  if (!page) return;
  LastPage last = find_last_page(source, part, page);
  int64_t rest = part.end - last.end;
  uint8_t head[16] = {0};
  int64_t got = source_read(source, last.end, part.end, head, sizeof head);
  view->has_known_end = last.end > part.start;
  if (got > 0 && !memcmp(head, "OggS", got < 4 ? got : 4)) {
    view->breaks_off = true;
    if (last.end > part.start) mend_page(source, last.end, part, page, view);
  } else if (!last.ends_stream) {
    view->breaks_off = last.is_continued || (rest > 0 && !is_tag(head, got));
  }
  free(page);
}
