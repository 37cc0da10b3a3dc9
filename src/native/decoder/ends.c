#include <string.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

/*
 * Whether a file breaks off, from what its container says about its own length: sizes of boxes, elements, objects and
 * packets. libav reads up to the end and does not tell.
 */

/* Sizes in 32 bits that live writers leave. */
static bool is_unknown(int64_t bytes) {
  return bytes == 0 || (bytes >= 0x7f000000 && bytes <= 0x80000000) || bytes >= 0xff000000;
}

/* ---- MP4 and QuickTime: ISO/IEC 14496-12 section 4.2 ---- */

static bool is_box(const uint8_t *head) {
  static const char names[] = "ftyp moov mdat moof mfra sidx styp free skip wide uuid meta udta emsg prft pnot ssix";
  char name[5] = {head[4], head[5], head[6], head[7], 0};
  return strchr(name, ' ') == NULL && strlen(name) == 4 && strstr(names, name) != NULL;
}

/* Reports whether the pieces of an index (section 8.16.3) reach behind the end. */
static bool index_reaches_behind(const Source *source, Part part, int64_t at, int64_t box_end) {
  uint8_t head[32], entry[12];
  if (source_read(source, at, part.end, head, sizeof head) < (int)sizeof head) return false;
  bool is_long = head[0] != 0;
  int64_t offset = is_long ? (int64_t)AV_RB64(head + 20) : AV_RB32(head + 16);
  int entries_at = is_long ? 32 : 24;
  int count = AV_RB16(head + entries_at - 2);
  int64_t end = box_end + (offset > 0 && offset < part.end ? offset : 0);
  for (int index = 0; index < count; index++) {
    if (source_read(source, at + entries_at + 12 * index, box_end, entry, sizeof entry) < (int)sizeof entry) return false;
    end += AV_RB32(entry) & 0x7fffffff;
  }
  return end > part.end;
}

static bool mp4_breaks_off(const Source *source, Part part) {
  uint8_t head[16];
  bool waits_for_sound = false;
  int64_t at = part.start;
  while (at < part.end) {
    int64_t got = source_read(source, at, part.end, head, sizeof head);
    /* Less than the head of a box. Zeros are padding. */
    if (got < 8) return memcmp(head, "\0\0\0\0\0\0\0", got) != 0;
    int64_t bytes = AV_RB32(head), head_bytes = 8;
    if (bytes == 1) bytes = got == 16 ? (int64_t)AV_RB64(head + 8) : 16, head_bytes = 16;
    if (!is_box(head) || bytes < head_bytes) break;
    if (bytes > part.end - at) return true;
    waits_for_sound = !memcmp(head + 4, "moof", 4) || (waits_for_sound && memcmp(head + 4, "mdat", 4));
    if (!memcmp(head + 4, "sidx", 4) && index_reaches_behind(source, part, at + head_bytes, at + bytes)) return true;
    at += bytes;
  }
  return at >= part.end && waits_for_sound;
}

/* ---- Matroska and WebM: RFC 8794 section 4, RFC 9559 section 5.1 ---- */

enum { SEGMENT = 0x18538067, CLUSTER = 0x1f43b675, ELEMENT_HEAD_BYTES = 12 };

typedef struct {
  uint32_t id;
  int64_t at, bytes;
} Element;

static int leading_zeros(uint8_t byte) {
  int zeros = 0;
  while (zeros < 8 && !(byte & 0x80 >> zeros)) zeros++;
  return zeros;
}

/* Reads an element's head. `bytes` is -1 when its length is unknown. False: there is none, or it is not whole. */
static bool read_element(const Source *source, int64_t at, int64_t end, Element *element) {
  uint8_t head[ELEMENT_HEAD_BYTES] = {0};
  int64_t got = source_read(source, at, end, head, sizeof head);
  int id_bytes = leading_zeros(head[0]) + 1;
  if (got < 2 || id_bytes > 4 || got <= id_bytes) return false;
  int size_bytes = leading_zeros(head[id_bytes]) + 1;
  if (size_bytes > 8 || got < id_bytes + size_bytes) return false;
  element->id = 0;
  for (int index = 0; index < id_bytes; index++) element->id = element->id << 8 | head[index];
  uint64_t size = head[id_bytes] & (0xff >> size_bytes), all = 0xff >> size_bytes;
  for (int index = 1; index < size_bytes; index++) {
    size = size << 8 | head[id_bytes + index];
    all = all << 8 | 0xff;
  }
  element->at = at + id_bytes + size_bytes;
  element->bytes = size == all ? -1 : (int64_t)size;
  return true;
}

static bool is_in_segment(uint32_t id) {
  static const uint32_t ids[] = {CLUSTER,    0x1c53bb6b, 0x1254c367, 0x114d9b74, 0x1549a966, 0x1654ae6b, 0x1941a469,
                                 0x1043a770, 0xec,       0xbf,       0xa3,       0xa0,       0xe7,       0xab, 0xa7};
  for (size_t index = 0; index < sizeof ids / sizeof *ids; index++) {
    if (id == ids[index]) return true;
  }
  return false;
}

static bool matroska_breaks_off(const Source *source, Part part) {
  Element element;
  if (!read_element(source, part.start, part.end, &element) || element.bytes < 0) return false;
  int64_t at = element.at + element.bytes;
  if (at >= part.end || !read_element(source, at, part.end, &element)) return true;
  if (element.id != SEGMENT) return false;
  if (element.bytes >= 0) return element.bytes > part.end - element.at;
  /* Live writers do not know how long segments and clusters are, so that their children follow directly. */
  for (at = element.at; at < part.end;) {
    if (!read_element(source, at, part.end, &element)) return part.end - at < ELEMENT_HEAD_BYTES;
    if (!is_in_segment(element.id)) return false;
    if (element.bytes > part.end - element.at) return true;
    at = element.bytes < 0 ? element.at : element.at + element.bytes;
  }
  return false;
}

/* ---- ASF and WMA ---- */

#define LONGEST_END_MARK 64

static bool asf_breaks_off(const Source *source, Part part) {
  static const uint8_t data_object[4] = {0x36, 0x26, 0xb2, 0x75};
  static const uint8_t properties[4] = {0xa1, 0xdc, 0xab, 0x8c};
  uint8_t head[104];
  if (source_read(source, part.start, part.end, head, 30) < 30) return false;
  int64_t data_at = part.start + (int64_t)(AV_RL64(head + 16) & INT32_MAX);
  int64_t packet_bytes = 0;
  for (int64_t at = part.start + 30, count = 0; at < data_at && count < 64; count++) {
    if (source_read(source, at, data_at, head, sizeof head) < 24) break;
    bool is_live = !memcmp(head, properties, 4) && (AV_RL32(head + 88) & 1);
    if (is_live) packet_bytes = AV_RL32(head + 92);
    int64_t bytes = AV_RL64(head + 16);
    if (bytes < 24 || bytes > data_at - at) break;
    at += bytes;
  }
  if (source_read(source, data_at, part.end, head, 50) < 50 || memcmp(head, data_object, 4)) return data_at > part.end;
  /* The length of a live recording means nothing, but its packets are equally long. An end mark may follow them. */
  if (packet_bytes > 0) return (part.end - data_at - 50) % packet_bytes > LONGEST_END_MARK;
  int64_t bytes = AV_RL64(head + 16);
  return bytes > part.end - data_at && bytes < LARGEST_CHUNK;
}

/* ---- RIFF: AVI, and others whose sound libav finds ---- */

static bool riff_breaks_off(const Source *source, Part part) {
  Chunk chunk;
  int64_t at = part.start, riff_end = part.start;
  for (int count = 0; count < 1000 && chunk_read(source, part, RIFF_CHUNKS, at, &chunk); count++) {
    bool is_riff = !memcmp(chunk.name, "RIFF", 4);
    /* Behind the file's chunks there may be a tag. */
    if (!is_riff && at >= riff_end) return false;
    if (is_unknown(chunk.bytes) && (is_riff || !memcmp(chunk.name, "LIST", 4))) return false;
    if (chunk.bytes > part.end - chunk.at + 1) return true;
    at = is_riff ? chunk.at + 4 : chunk.next;
    if (is_riff) riff_end = chunk.next;
  }
  return false;
}

/* ---- MPEG transport streams ---- */

/* Reports whether the last packet is not whole. `lead` are the bytes in front of each packet's first one. */
static bool transport_breaks_off(const Source *source, Part part, int lead) {
  int64_t rest = (part.end - part.start) % (188 + lead);
  uint8_t first[5] = {0};
  return source_read(source, part.end - rest, part.end, first, sizeof first) > lead && first[lead] == 0x47;
}

/* ---- MPEG audio: ISO/IEC 11172-3 section 2.4.1.3 and 13818-3 section 2.4.2.3 ---- */

int mpeg_frame_bytes(const uint8_t *head, int available) {
  static const int kbps[5][15] = {
      {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
      {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
      {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
      {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
      {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
  };
  static const int hertz[3] = {44100, 48000, 32000};
  if (available < 4 || head[0] != 0xff || (head[1] & 0xe0) != 0xe0) return 0;
  int version = head[1] >> 3 & 3, layer = 4 - (head[1] >> 1 & 3), rate = head[2] >> 2 & 3, padding = head[2] >> 1 & 1;
  if (version == 1 || layer == 4 || rate == 3 || head[2] >> 4 == 15) return 0;
  bool is_first = version == 3;
  int rate_hz = hertz[rate] >> (is_first ? 0 : version == 2 ? 1 : 2);
  int bits = 1000 * kbps[is_first ? layer - 1 : layer == 1 ? 3 : 4][head[2] >> 4];
  if (layer == 1) return (12 * bits / rate_hz + padding) * 4;
  return (layer == 3 && !is_first ? 72 : 144) * bits / rate_hz + padding;
}

bool breaks_off(const Source *source, Part part) {
  uint8_t head[392] = {0};
  source_read(source, part.start, part.end, head, sizeof head);
  if (is_box(head)) return mp4_breaks_off(source, part);
  if (!memcmp(head, "\x1a\x45\xdf\xa3", 4)) return matroska_breaks_off(source, part);
  if (!memcmp(head, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", 8)) return asf_breaks_off(source, part);
  if (!memcmp(head, "RIFF", 4) && memcmp(head + 8, "WAVE", 4)) return riff_breaks_off(source, part);
  if (head[0] == 0x47 && head[188] == 0x47 && head[376] == 0x47) return transport_breaks_off(source, part, 0);
  if (head[4] == 0x47 && head[196] == 0x47 && head[388] == 0x47) return transport_breaks_off(source, part, 4);
  return false;
}
