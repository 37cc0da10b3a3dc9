#include <string.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

/* The last twelve bytes of the names of Wave64's chunks; the first four are the name of the WAV chunk. */
static const uint8_t WAVE64_NAME[12] = {0xf3, 0xac, 0xd3, 0x11, 0x8c, 0xd1, 0x00, 0xc0, 0x4f, 0x8e, 0xdb, 0x8a};

static bool is_printable(const uint8_t *name) {
  for (int index = 0; index < 4; index++) {
    if (name[index] < 0x20 || name[index] > 0x7e) return false;
  }
  return true;
}

bool chunk_read(const Source *source, Part part, ChunkForm form, int64_t at, Chunk *chunk) {
  uint8_t head[24];
  int length = form == WAVE64_CHUNKS ? 24 : form == CAF_CHUNKS ? 12 : 8;
  if (source_read(source, at, part.end, head, length) < length) return false;
  if (form != WAVE64_CHUNKS && !is_printable(head)) return false;
  bool has_name = form != WAVE64_CHUNKS || !memcmp(head + 4, WAVE64_NAME, sizeof WAVE64_NAME);
  memcpy(chunk->name, has_name ? head : (const uint8_t *)"????", 4);
  chunk->at = at + length;
  switch (form) {
    case RIFF_CHUNKS: chunk->bytes = AV_RL32(head + 4); break;
    case FORM_CHUNKS: chunk->bytes = AV_RB32(head + 4); break;
    case CAF_CHUNKS: chunk->bytes = AV_RB64(head + 4); break;
    case WAVE64_CHUNKS: chunk->bytes = AV_RL64(head + 16); break;
  }
  if (form == WAVE64_CHUNKS && chunk->bytes >= length) chunk->bytes -= length;
  if (chunk->bytes < 0 || chunk->bytes > LARGEST_CHUNK) {
    chunk->next = part.end;
    return true;
  }
  int64_t unit = form == WAVE64_CHUNKS ? 8 : form == CAF_CHUNKS ? 1 : 2;
  /* Positions count from the beginning of the part, which need not be even. */
  chunk->next = part.start + (chunk->at + chunk->bytes - part.start + unit - 1) / unit * unit;
  return true;
}

/* ---- What is behind the sound ---- */

/* Up to this many bytes behind the sound are padding of editors, not a recording. */
#define MAX_STRAY_BYTES 4096
#define LOOKED_AT_BYTES 65536
/* Fewer numbers than these say too little about how evenly they are spread. */
#define ENOUGH_SAMPLES 4096
/*
 * Share of the numbers' pairs that are equal: 1/256 in encrypted or compressed data. In the highest bytes of sound it is
 * at least three times as much, even where the sound is loud noise.
 */
#define RANDOM_PAIRS (1.3 / 256)
#define TEXT_SHARE 0.97

static bool is_one_of(const char name[4], const char *const *names) {
  for (; *names; names++) {
    if (!memcmp(name, *names, 4)) return true;
  }
  return false;
}

/* Chunks of RIFF and FORM files that come behind the sound. */
static bool is_known(const char name[4]) {
  static const char *const names[] = {
      "LIST", "list", "INFO", "bext", "iXML", "axml", "aXML", "chna", "cart", "_PMX", "umid", "minf", "elm1", "elmo",
      "regn", "fact", "PEAK", "cue ", "plst", "labl", "note", "ltxt", "adtl", "smpl", "inst", "acid", "strc", "DISP",
      "JUNK", "junk", "PAD ", "pad ", "FLLR", "id3 ", "ID3 ", "afsp", "AFAn", "levl", "qlty", "mext", "link", "ovwf",
      "SAUR", "SNDM", "COMT", "MARK", "INST", "NAME", "AUTH", "(c) ", "ANNO", "APPL", "MIDI", "AESD", "COMM", "FVER",
      "CHAN", "fmt ", "info", "uuid", "free", "edct", "pakt", "kuki", "strg", "ovvw", "peak", "chan", "desc", "data",
      "RIFF", "FORM", "RIFX", "RF64", "OggS", "fLaC", "TAG+", "APET", "LYRI", "<?xm", "PK\3\4", "%PDF", NULL};
  return is_one_of(name, names);
}

/* A chunk is there if its name is known, or if it ends with the part or before another one. */
static bool begins_chunk(const Source *source, Part part, ChunkForm form, int64_t at) {
  Chunk chunk, next;
  if (!chunk_read(source, part, form, at, &chunk)) return false;
  if (is_known(chunk.name)) return true;
  if (chunk.bytes < 0 || chunk.bytes > part.end - chunk.at) return false;
  if (form == WAVE64_CHUNKS) return part.end - chunk.at - chunk.bytes < 8;
  return part.end - chunk.at - chunk.bytes <= 1 || chunk_read(source, part, form, chunk.next, &next);
}

bool chunks_fill(const Source *source, Part part, ChunkForm form, int64_t at) {
  while (at < part.end) {
    Chunk chunk = {0};
    if (!chunk_read(source, part, form, at, &chunk)) return false;
    if (chunk.bytes < 0 || chunk.bytes > part.end - chunk.at) return false;
    at = chunk.next;
  }
  return true;
}

bool is_tag(const uint8_t *bytes, int64_t available) {
  if (available < 10) return !memcmp(bytes, "TAG", 3);
  if (!memcmp(bytes, "ID3", 3) && bytes[3] >= 2 && bytes[3] <= 4 && ((bytes[6] | bytes[7] | bytes[8] | bytes[9]) & 128) == 0) {
    return true;
  }
  return is_known((const char *)bytes) || !memcmp(bytes, "TAG", 3) || !memcmp(bytes, "\xff\xd8\xff", 3) ||
         !memcmp(bytes, "\x89PNG", 4);
}

static bool is_text(const uint8_t *bytes, int64_t count) {
  int64_t printable = 0;
  for (int64_t index = 0; index < count; index++) {
    uint8_t byte = bytes[index];
    if ((byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\r' || byte == '\t') printable++;
  }
  return printable >= count * TEXT_SHARE;
}

/* Reports whether the highest bytes of samples are spread as evenly as those of encrypted or compressed data. */
static bool is_random(const uint8_t *bytes, int64_t count, SampleForm samples) {
  int64_t seen[256] = {0}, counted = 0;
  double pairs = 0;
  if (samples.bytes == 0) return false;
  for (int64_t at = samples.highest; at < count; at += samples.bytes, counted++) seen[bytes[at]]++;
  if (counted < ENOUGH_SAMPLES) return false;
  for (int value = 0; value < 256; value++) pairs += (double)seen[value] * (seen[value] - 1);
  return pairs / ((double)counted * (counted - 1)) < RANDOM_PAIRS;
}

/* Returns the position of the first byte from `at` on that is not zero; the end of the part when there is none. */
static int64_t skip_zeros(const Source *source, int64_t at, int64_t end) {
  uint8_t block[LOOKED_AT_BYTES];
  while (at < end) {
    int64_t got = source_read(source, at, end, block, sizeof block);
    if (got <= 0) return end;
    for (int64_t index = 0; index < got; index++) {
      if (block[index] != 0) return at + index;
    }
    at += got;
  }
  return end;
}

bool sound_continues(const Source *source, Part part, ChunkForm form, SampleForm samples, int64_t data_at, int64_t end) {
  uint8_t block[LOOKED_AT_BYTES];
  if (part.end - end <= MAX_STRAY_BYTES) return false;
  bool is_odd = (end - part.start) % 2 != 0;
  if (begins_chunk(source, part, form, end) || (is_odd && begins_chunk(source, part, form, end + 1))) return false;
  int64_t at = skip_zeros(source, end, part.end);
  if (part.end - at <= MAX_STRAY_BYTES) return false;
  int64_t got = source_read(source, at, part.end, block, sizeof block);
  if (begins_chunk(source, part, form, at) || is_tag(block, got)) return false;
  /* From the next whole sample on. */
  int64_t ahead = samples.bytes > 0 ? (samples.bytes - (at - data_at) % samples.bytes) % samples.bytes : 0;
  return !is_text(block, got < MAX_STRAY_BYTES ? got : MAX_STRAY_BYTES) && !is_random(block + ahead, got - ahead, samples);
}
