#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>

#include "decoder.h"

#define IO_BUFFER_BYTES (64 * 1024)
#define SCAN_BYTES (1024 * 1024)

/* ---- Reading one part ---- */

typedef struct {
  const Source *source;
  const View *view;
  int64_t at;
} Window;

bool source_replace(Source *source, Patch patch) {
  if (source->patch_count == source->patch_capacity) {
    int capacity = source->patch_capacity > 0 ? 2 * source->patch_capacity : 16;
    Patch *patches = realloc(source->patches, capacity * sizeof *patches);
    if (!patches) return false;
    source->patches = patches;
    source->patch_capacity = capacity;
  }
  source->patches[source->patch_count++] = patch;
  return true;
}

bool source_note_play(Source *source, TrackPlay play) {
  TrackPlay *plays = realloc(source->plays, (source->play_count + 1) * sizeof *plays);
  if (!plays) return false;
  source->plays = plays;
  plays[source->play_count++] = play;
  return true;
}

double source_played_s(const Source *source, Part part, int track) {
  for (int index = 0; index < source->play_count; index++) {
    const TrackPlay *play = &source->plays[index];
    if (play->list >= part.start && play->list < part.end && play->track == (uint32_t)track) return play->seconds;
  }
  return NAN;
}

/* Returns the first replacement that ends behind a position. They are in order. */
static int first_patch_behind(const Source *source, int64_t position) {
  int from = 0, to = source->patch_count;
  while (from < to) {
    int middle = from + (to - from) / 2;
    const Patch *patch = &source->patches[middle];
    if (patch->at + patch->length <= position) from = middle + 1;
    else to = middle;
  }
  return from;
}

/* Replaces in bytes that were read at a position. */
static void apply_patches(const Source *source, int64_t position, uint8_t *buffer, int64_t count) {
  for (int index = first_patch_behind(source, position); index < source->patch_count; index++) {
    const Patch *patch = &source->patches[index];
    if (patch->at >= position + count) break;
    for (int byte = 0; byte < patch->length; byte++) {
      int64_t at = patch->at + byte - position;
      if (at >= 0 && at < count) buffer[at] = patch->bytes[byte];
    }
  }
}

static int window_read(void *opaque, uint8_t *buffer, int wanted) {
  Window *window = opaque;
  const View *view = window->view;
  int64_t body_end = view->head_bytes + view->body.end - view->body.start;
  const uint8_t *made = NULL;
  int64_t left;
  if (window->at < view->head_bytes) {
    made = view->head + window->at;
    left = view->head_bytes - window->at;
  } else if (window->at < body_end) {
    left = body_end - window->at;
  } else {
    made = view->tail + (window->at - body_end);
    left = body_end + view->tail_bytes - window->at;
  }
  if (left <= 0) return AVERROR_EOF;
  ssize_t got = wanted < left ? wanted : left;
  int64_t position = view->body.start + window->at - view->head_bytes;
  if (made) memcpy(buffer, made, got);
  else got = pread(window->source->fd, buffer, got, position);
  if (got < 0) return AVERROR(errno);
  if (got == 0) return AVERROR_EOF;
  if (!made) apply_patches(window->source, position, buffer, got);
  window->at += got;
  return got;
}

static int64_t window_seek(void *opaque, int64_t offset, int whence) {
  Window *window = opaque;
  int64_t length = view_bytes(window->view);
  if (whence & AVSEEK_SIZE) return length;
  switch (whence & ~AVSEEK_FORCE) {
    case SEEK_SET: break;
    case SEEK_CUR: offset += window->at; break;
    case SEEK_END: offset += length; break;
    default: return AVERROR(EINVAL);
  }
  if (offset < 0 || offset > length) return AVERROR(EINVAL);
  window->at = offset;
  return offset;
}

AVIOContext *source_io(const Source *source, const View *view) {
  Window *window = malloc(sizeof *window);
  uint8_t *buffer = av_malloc(IO_BUFFER_BYTES);
  AVIOContext *io = NULL;
  if (window && buffer) {
    *window = (Window){.source = source, .view = view};
    io = avio_alloc_context(buffer, IO_BUFFER_BYTES, 0, window, window_read, NULL, window_seek);
  }
  if (!io) {
    free(window);
    av_free(buffer);
  }
  return io;
}

void source_free_io(AVIOContext *io) {
  if (!io) return;
  free(io->opaque);
  av_freep(&io->buffer);
  avio_context_free(&io);
}

/* ---- Finding the parts ---- */

int64_t source_read(const Source *source, int64_t at, int64_t end, void *buffer, int64_t bytes) {
  if (at < 0 || at >= end) return 0;
  ssize_t got = pread(source->fd, buffer, bytes < end - at ? bytes : end - at, at);
  return got < 0 ? 0 : got;
}

static int64_t read_at(const Source *source, int64_t offset, void *buffer, int64_t bytes) {
  return source_read(source, offset, source->bytes, buffer, bytes);
}

/* The last part ends where the new one begins. */
static bool add_part(Source *source, int64_t start) {
  Part *parts = realloc(source->parts, (source->part_count + 1) * sizeof *parts);
  if (!parts) return false;
  source->parts = parts;
  if (source->part_count > 0) parts[source->part_count - 1].end = start;
  parts[source->part_count++] = (Part){.start = start, .end = source->bytes};
  return true;
}

typedef bool IsHead(const uint8_t *bytes, int64_t available);

/*
 * Returns the first position in a range where a signature begins and `is_head` confirms it; -1 when there is none.
 * The scan reads the file once, in blocks that overlap by the longest head.
 */
#define MAX_HEAD_BYTES 128
static int64_t find_head(const Source *source, Part range, const char *signature, int length, IsHead *is_head) {
  uint8_t *block = malloc(SCAN_BYTES);
  int64_t found = -1, from = range.start;
  while (block && found < 0 && from + length <= range.end) {
    int64_t got = source_read(source, from, range.end, block, SCAN_BYTES);
    if (got < length) break;
    bool is_last = from + got >= range.end;
    int64_t usable = is_last ? got : got - MAX_HEAD_BYTES;
    const uint8_t *at = block;
    while ((at = memmem(at, got - (at - block), signature, length)) && at - block < usable) {
      if (!is_head || is_head(at, got - (at - block))) {
        found = from + (at - block);
        break;
      }
      at++;
    }
    if (is_last) break;
    from += usable;
  }
  free(block);
  return found;
}

int64_t source_find(const Source *source, Part range, const char *signature, int length) {
  return find_head(source, range, signature, length, NULL);
}

/* RFC 9639 section 8: a STREAMINFO block of 34 bytes comes first, with a block size and a rate. */
static bool is_flac_head(const uint8_t *bytes, int64_t available) {
  if (available < 24 || (bytes[4] & 0x7f) != 0 || AV_RB24(bytes + 5) != 34) return false;
  return AV_RB16(bytes + 8) >= 16 && AV_RB16(bytes + 10) >= AV_RB16(bytes + 8) && AV_RB24(bytes + 18) >> 4 > 0;
}

/* RFC 8794 section 11.2.4: an EBML header with the DocType of Matroska or WebM. */
static bool is_matroska_head(const uint8_t *bytes, int64_t available) {
  int64_t looked_at = available < 64 ? available : 64;
  return memmem(bytes, looked_at, "\x42\x82", 2) &&
         (memmem(bytes, looked_at, "matroska", 8) || memmem(bytes, looked_at, "webm", 4));
}

static bool find_by_signature(Source *source, const char *signature, int length, IsHead *is_head) {
  int64_t at = source->parts[0].start;
  while ((at = find_head(source, (Part){at + 1, source->bytes}, signature, length, is_head)) >= 0) {
    if (!add_part(source, at)) return false;
  }
  return true;
}

/*
 * Files of chunks directly after each other: "RIFF", or "RIFX" and "FORM" with sizes in the other byte order. A long AVI
 * file has further chunks of its own (OpenDML).
 */
static bool find_chunk_files(Source *source) {
  uint8_t first[12], head[12];
  int64_t at = 0;
  read_at(source, 0, first, sizeof first);
  while (read_at(source, at, head, 12) == 12 && !memcmp(head, first, 4)) {
    if (at > 0 && memcmp(head + 8, "AVIX", 4) && !add_part(source, at)) return false;
    int64_t bytes = !memcmp(head, "RIFF", 4) ? AV_RL32(head + 4) : AV_RB32(head + 4);
    at += 8 + bytes + bytes % 2;
  }
  return true;
}

/* MP4 files behind each other: each begins with a box `ftyp` (ISO/IEC 14496-12 section 4.3), behind one with sound. */
static bool find_mp4_files(Source *source) {
  uint8_t head[16];
  bool has_sound = false;
  for (int64_t at = 0, bytes; read_at(source, at, head, 16) >= 8; at += bytes) {
    bytes = AV_RB32(head);
    if (bytes == 1) bytes = AV_RB64(head + 8);
    if (!memcmp(head + 4, "ftyp", 4) && has_sound) {
      if (!add_part(source, at)) return false;
      has_sound = false;
    }
    if (!memcmp(head + 4, "mdat", 4)) has_sound = true;
    if (bytes < 8 || bytes > source->bytes - at) break;
  }
  return true;
}

/* A chain's next link begins with a page that begins a stream, behind pages that do not (RFC 3533 section 4). */
static bool find_ogg_parts(Source *source) {
  uint8_t *page = malloc(OGG_PAGE_BYTES);
  bool is_done = page != NULL, is_past_heads = false;
  for (int64_t at = 0; is_done && at >= 0 && at < source->bytes;) {
    int64_t bytes = ogg_page_bytes(source, at, source->bytes, page);
    if (bytes == 0) {
      at = source_find(source, (Part){at + 1, source->bytes}, "OggS", 4);
      continue;
    }
    bool begins = (page[5] & OGG_BEGINS_STREAM) != 0;
    if (begins && is_past_heads && ogg_page_is_sound(source, at, source->bytes, bytes, page)) {
      is_done = add_part(source, at);
      is_past_heads = false;
    } else if (!begins) {
      is_past_heads = true;
    }
    at += bytes;
  }
  free(page);
  return is_done;
}

/* ID3 tags may come before FLAC; their length is written with 7 bits a byte (ID3v2.4 section 3.1). */
static int64_t id3_bytes(const uint8_t *head) {
  if (memcmp(head, "ID3", 3)) return 0;
  return 10 + ((int64_t)(head[6] & 127) << 21 | (head[7] & 127) << 14 | (head[8] & 127) << 7 | (head[9] & 127));
}

static bool find_parts(Source *source) {
  uint8_t head[12] = {0};
  if (!add_part(source, 0)) return false;
  read_at(source, 0, head, sizeof head);
  if (!memcmp(head, "OggS", 4)) return find_ogg_parts(source);
  if (!memcmp(head, "RIFF", 4) || !memcmp(head, "RIFX", 4) || !memcmp(head, "FORM", 4)) return find_chunk_files(source);
  if (!memcmp(head + 4, "ftyp", 4)) return find_mp4_files(source);
  if (!memcmp(head, "\x1a\x45\xdf\xa3", 4)) {
    return find_by_signature(source, "\x1a\x45\xdf\xa3", 4, is_matroska_head);
  }
  uint8_t magic[4] = {0};
  int64_t tag_bytes = id3_bytes(head);
  read_at(source, tag_bytes, magic, sizeof magic);
  if (memcmp(magic, "fLaC", 4)) return true;
  source->parts[0].start = tag_bytes;
  return find_by_signature(source, "fLaC", 4, is_flac_head);
}

Failure source_open(Source *source, const char *path) {
  struct stat found;
  *source = (Source){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (source->fd < 0 || fstat(source->fd, &found) != 0 || !S_ISREG(found.st_mode)) return BROKEN_SYSTEM;
  source->bytes = found.st_size;
  return DECODED;
}

Failure source_find_parts(Source *source) { return find_parts(source) && edits_mend(source) && qcp_mend(source) ? DECODED : NO_MEMORY; }

Failure source_begin_at(Source *source, Part first) {
  if (first.start < 0 || first.end > source->bytes || first.start >= first.end) return UNDECODABLE;
  if (!edits_mend(source) || !qcp_mend(source)) return NO_MEMORY;
  if (first.end == source->bytes) {
    if (!add_part(source, first.start)) return NO_MEMORY;
    return DECODED;
  }
  if (!find_parts(source)) return NO_MEMORY;
  int dropped = 0;
  while (dropped < source->part_count && source->parts[dropped].start < first.start) dropped++;
  source->part_count -= dropped;
  memmove(source->parts, source->parts + dropped, source->part_count * sizeof(Part));
  return source->part_count > 0 ? DECODED : UNDECODABLE;
}

void source_close(Source *source) {
  if (source->fd >= 0) close(source->fd);
  free(source->parts);
  free(source->patches);
  free(source->plays);
  *source = (Source){.fd = -1};
}
