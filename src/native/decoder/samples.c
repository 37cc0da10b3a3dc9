#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/codec_id.h>
#include <libavutil/intfloat.h>
#include <libavutil/intreadwrite.h>

#include "decoder.h"

/*
 * WAV with its relatives (RIFX, RF64, BW64, Wave64), AIFF, AU and CAF. The program finds the sound in them by itself, and
 * libav reads a WAV file without any length: a made header, and the bytes of the sound. libav takes everything behind the
 * sound of AU for sound, refuses lengths that live writers leave, and misreads samples in larger containers.
 */

/* A larger description of a codec is not one. */
#define MAX_FORMAT_BYTES 4096
/* Zeros take no memory before they are read. */
#define MAX_HEAD_BYTES (64 * 1024 * 1024)
#define MAX_CHUNKS 10000

enum { PCM_TAG = 1, FLOAT_TAG = 3, A_LAW_TAG = 6, EXTENSIBLE_TAG = 0xfffe };

typedef struct {
  ChunkForm form;
  bool is_big_endian;
  /* Where the sound begins in the file (0: nowhere), and how many bytes of it the header names. */
  int64_t data_at, claimed;
  /* What libav shall read instead of the container's head; empty when it shall read the container itself. */
  uint8_t format[MAX_FORMAT_BYTES];
  int format_bytes;
  /* AV_CODEC_ID_NONE: the one that libav chooses. */
  int codec;
  SampleForm samples;
  int channels;
} Found;

/* ---- Samples ---- */

typedef enum { SIGNED, UNSIGNED, FLOATING, A_LAW, MU_LAW } Kind;

/* Returns the codec of samples; AV_CODEC_ID_NONE when there is none. */
static int codec_of(Kind kind, int bytes, bool is_big_endian) {
  switch (kind) {
    case A_LAW: return bytes == 1 ? AV_CODEC_ID_PCM_ALAW : AV_CODEC_ID_NONE;
    case MU_LAW: return bytes == 1 ? AV_CODEC_ID_PCM_MULAW : AV_CODEC_ID_NONE;
    case UNSIGNED: return bytes == 1 ? AV_CODEC_ID_PCM_U8 : AV_CODEC_ID_NONE;
    case FLOATING:
      if (bytes == 4) return is_big_endian ? AV_CODEC_ID_PCM_F32BE : AV_CODEC_ID_PCM_F32LE;
      if (bytes == 8) return is_big_endian ? AV_CODEC_ID_PCM_F64BE : AV_CODEC_ID_PCM_F64LE;
      return AV_CODEC_ID_NONE;
    case SIGNED: break;
  }
  switch (bytes) {
    case 1: return AV_CODEC_ID_PCM_S8;
    case 2: return is_big_endian ? AV_CODEC_ID_PCM_S16BE : AV_CODEC_ID_PCM_S16LE;
    case 3: return is_big_endian ? AV_CODEC_ID_PCM_S24BE : AV_CODEC_ID_PCM_S24LE;
    case 4: return is_big_endian ? AV_CODEC_ID_PCM_S32BE : AV_CODEC_ID_PCM_S32LE;
    case 8: return is_big_endian ? AV_CODEC_ID_PCM_S64BE : AV_CODEC_ID_PCM_S64LE;
    default: return AV_CODEC_ID_NONE;
  }
}

/*
 * Describes samples to libav, which has no way to name all of them in a WAV file: as A-law, which it never searches for
 * compressed sound, with the right size of a frame. `codec` says what they are.
 */
static void describe(Found *found, Kind kind, int bytes, int channels, int64_t rate_hz, uint32_t places) {
  int codec = codec_of(kind, bytes, found->is_big_endian);
  if (codec == AV_CODEC_ID_NONE || channels < 1 || channels * bytes > UINT16_MAX) return;
  found->codec = codec;
  found->samples = (SampleForm){.bytes = bytes, .highest = found->is_big_endian ? 0 : bytes - 1};
  found->channels = channels;
  uint8_t *format = found->format;
  memset(format, 0, 40);
  found->format_bytes = 40;
  AV_WL16(format, EXTENSIBLE_TAG);
  AV_WL16(format + 2, channels);
  AV_WL32(format + 4, rate_hz);
  AV_WL32(format + 8, rate_hz * channels * bytes);
  AV_WL16(format + 12, channels * bytes);
  AV_WL16(format + 14, 8);
  AV_WL16(format + 16, 22);
  AV_WL16(format + 18, 8);
  AV_WL32(format + 20, places);
  AV_WL32(format + 24, A_LAW_TAG);
  memcpy(format + 28, "\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 12);
}

/* ---- WAV ---- */

typedef struct {
  int tag, channels, align, bits, valid_bits;
  int64_t rate_hz;
  uint32_t places;
} WavFormat;

static WavFormat parse_wav_format(const uint8_t *bytes, int count, bool is_big_endian) {
#define NUMBER16(at) (is_big_endian ? AV_RB16(bytes + (at)) : AV_RL16(bytes + (at)))
#define NUMBER32(at) (is_big_endian ? AV_RB32(bytes + (at)) : AV_RL32(bytes + (at)))
  WavFormat format = {.tag = NUMBER16(0), .channels = NUMBER16(2), .rate_hz = NUMBER32(4), .align = NUMBER16(12)};
  format.bits = format.valid_bits = count >= 16 ? NUMBER16(14) : 8;
  if (format.tag != EXTENSIBLE_TAG || count < 40) return format;
  if (NUMBER16(18) > 0) format.valid_bits = NUMBER16(18);
  format.places = NUMBER32(20);
  format.tag = NUMBER16(24);
  /* Some writers of RIFX write this number as 32 bits, and some only its lower 16 bits, in front. */
  if (is_big_endian && format.tag == 0) format.tag = NUMBER16(26);
  return format;
}

typedef enum { HIGH_BITS, LOW_BITS, FLOATS } Placing;

/*
 * Finds out where 24 bits or fewer lie in containers of four bytes. Microsoft's description of WAVE_FORMAT_EXTENSIBLE puts
 * them into the highest bits. ALSA's recorders put them into the lowest ones, and an old editor wrote floats of the
 * same size under the same description, which has no other name in a header that is not extensible.
 */
static Placing placing_of(const Source *source, Part part, const Found *found, int valid_bits) {
  uint8_t block[4096];
  int64_t low = 0, stray = 0, floats = 0, numbers = 0;
  int64_t step = (part.end - found->data_at) / 16 / (int64_t)sizeof block * (int64_t)sizeof block;
  uint32_t unused = valid_bits > 0 && valid_bits < 32 ? (1u << (32 - valid_bits)) - 1 : 0xff;
  for (int place = 0; place < 16; place++) {
    int64_t got = source_read(source, found->data_at + place * step, part.end, block, sizeof block);
    for (int64_t at = 0; at + 4 <= got; at += 4, numbers++) {
      uint32_t bits = found->is_big_endian ? AV_RB32(block + at) : AV_RL32(block + at);
      float value = fabsf(av_int2float(bits));
      if (bits & unused) low++;
      if (bits >> 24 != 0 && bits >> 24 != 0xff) stray++;
      if (bits == 0 || (value >= 1e-3f && value <= 1 << 24)) floats++;
    }
    if (step == 0) break;
  }
  if (low == 0) return HIGH_BITS;
  if (stray == 0) return LOW_BITS;
  return floats == numbers ? FLOATS : HIGH_BITS;
}

/* Chooses the codec of whole numbers whose containers libav does not look at. */
static void mend_whole_numbers(const Source *source, Part part, Found *found, const WavFormat *format, int bytes) {
  bool is_usual = (format->bits + 7) / 8 == bytes && (format->valid_bits + 7) / 8 == bytes;
  if (is_usual && !found->is_big_endian) return;
  int moved = 0;
  if (bytes == 4 && format->valid_bits <= 24) {
    Placing placing = placing_of(source, part, found, format->valid_bits);
    if (placing == FLOATS && !found->is_big_endian) return;
    /* One byte to the side, the number is in the highest bits. */
    if (placing == LOW_BITS) moved = found->is_big_endian ? 1 : -1;
  }
  describe(found, bytes == 1 ? UNSIGNED : SIGNED, bytes, format->channels, format->rate_hz, format->places);
  found->data_at += moved;
  if (found->claimed > moved) found->claimed -= moved;
}

/* Takes the description over, and mends it where libav would misread the samples. */
static void take_wav_format(const Source *source, Part part, Found *found, Chunk chunk) {
  uint8_t bytes[MAX_FORMAT_BYTES] = {0};
  if (chunk.bytes < 14 || chunk.bytes > MAX_FORMAT_BYTES) return;
  if (source_read(source, chunk.at, part.end, bytes, chunk.bytes) < chunk.bytes) return;
  WavFormat format = parse_wav_format(bytes, chunk.bytes, found->is_big_endian);
  int container = format.channels > 0 && format.align % format.channels == 0 ? format.align / format.channels : 0;
  memcpy(found->format, bytes, chunk.bytes);
  found->format_bytes = chunk.bytes;
  found->channels = format.channels;
  if (format.tag == PCM_TAG) mend_whole_numbers(source, part, found, &format, container);
  bool is_float = format.tag == FLOAT_TAG, is_a_law = format.tag == A_LAW_TAG, is_mu_law = format.tag == A_LAW_TAG + 1;
  if (found->is_big_endian && (is_float || is_a_law || is_mu_law)) {
    Kind kind = is_float ? FLOATING : is_a_law ? A_LAW : MU_LAW;
    describe(found, kind, container, format.channels, format.rate_hz, format.places);
  }
  if (found->codec == AV_CODEC_ID_NONE) {
    bool has_samples = format.tag == PCM_TAG || is_float || is_a_law || is_mu_law;
    if (has_samples && container > 0) found->samples = (SampleForm){.bytes = container, .highest = container - 1};
    /* Compressed sound: its numbers are in the order that libav reads. Its own bytes are as they are. */
    if (found->is_big_endian) {
      for (int at = 0; at < 16; at += at == 4 || at == 8 ? 4 : 2) {
        if (at == 4 || at == 8) AV_WL32(found->format + at, AV_RB32(bytes + at));
        else AV_WL16(found->format + at, AV_RB16(bytes + at));
      }
    }
  }
}

static void find_in_wav(const Source *source, Part part, Found *found, int64_t first) {
  Chunk chunk, format = {.bytes = -1};
  int64_t long_bytes = -1;
  for (int64_t at = first, count = 0; count < MAX_CHUNKS; count++, at = chunk.next) {
    if (!chunk_read(source, part, found->form, at, &chunk)) break;
    if (!memcmp(chunk.name, "ds64", 4)) {
      uint8_t sizes[16];
      if (source_read(source, chunk.at, part.end, sizes, sizeof sizes) == sizeof sizes) long_bytes = AV_RL64(sizes + 8);
    } else if (!memcmp(chunk.name, "fmt ", 4) && format.bytes < 0) {
      format = chunk;
    } else if (!memcmp(chunk.name, "data", 4) && found->data_at == 0) {
      found->data_at = chunk.at;
      found->claimed = chunk.bytes == UINT32_MAX && long_bytes > 0 ? long_bytes : chunk.bytes;
      if (found->claimed != chunk.bytes && found->claimed < part.end - chunk.at) {
        chunk.next = chunk.at + found->claimed + found->claimed % 2;
      }
    }
    if (found->data_at > 0 && format.bytes >= 0) break;
  }
  if (found->data_at > 0 && format.bytes >= 0) take_wav_format(source, part, found, format);
}

/* ---- AIFF ---- */

/* Returns a rate that is written with 80 bits (IEEE 754, extended); 0 when it is none. */
static int64_t rate_of(const uint8_t *bytes) {
  double rate_hz = ldexp((double)AV_RB64(bytes + 2), (AV_RB16(bytes) & 0x7fff) - 16383 - 63);
  return rate_hz >= 1 && rate_hz < 1e9 ? llrint(rate_hz) : 0;
}

static void take_common_chunk(const Source *source, Part part, Found *found, Chunk chunk, bool is_compressed) {
  uint8_t bytes[22] = "";
  if (source_read(source, chunk.at, part.end, bytes, is_compressed ? 22 : 18) < 18) return;
  const char *name = is_compressed ? (const char *)bytes + 18 : "NONE";
  int bits = AV_RB16(bytes + 6), channels = AV_RB16(bytes);
  Kind kind = SIGNED;
  int size = (bits + 7) / 8;
  if (!memcmp(name, "sowt", 4)) found->is_big_endian = false;
  else if (!memcmp(name, "42ni", 4)) found->is_big_endian = false, size = 3;
  else if (!memcmp(name, "23ni", 4)) found->is_big_endian = false, size = 4;
  else if (!memcmp(name, "in24", 4)) size = 3;
  else if (!memcmp(name, "in32", 4)) size = 4;
  else if (!memcmp(name, "fl32", 4) || !memcmp(name, "FL32", 4)) kind = FLOATING, size = 4;
  else if (!memcmp(name, "fl64", 4) || !memcmp(name, "FL64", 4)) kind = FLOATING, size = 8;
  else if (!memcmp(name, "alaw", 4) || !memcmp(name, "ALAW", 4)) kind = A_LAW, size = 1;
  else if (!memcmp(name, "ulaw", 4) || !memcmp(name, "ULAW", 4)) kind = MU_LAW, size = 1;
  else if (!memcmp(name, "raw ", 4)) kind = UNSIGNED;
  else if (memcmp(name, "NONE", 4) && memcmp(name, "twos", 4)) return;
  describe(found, kind, size, channels, rate_of(bytes + 8), 0);
}

static void find_in_aiff(const Source *source, Part part, Found *found, bool is_compressed) {
  Chunk chunk, common = {.bytes = -1};
  for (int64_t at = part.start + 12, count = 0; count < MAX_CHUNKS; count++, at = chunk.next) {
    if (!chunk_read(source, part, FORM_CHUNKS, at, &chunk)) break;
    if (!memcmp(chunk.name, "COMM", 4)) {
      common = chunk;
    } else if (!memcmp(chunk.name, "SSND", 4) && found->data_at == 0) {
      uint8_t offset[4] = {0};
      source_read(source, chunk.at, part.end, offset, sizeof offset);
      found->data_at = chunk.at + 8 + AV_RB32(offset);
      found->claimed = chunk.bytes - 8 - AV_RB32(offset);
    }
    if (found->data_at > 0 && common.bytes >= 0) break;
  }
  if (found->data_at > 0 && common.bytes >= 18) take_common_chunk(source, part, found, common, is_compressed);
}

/* ---- AU and CAF ---- */

static void find_in_au(Found *found, Part part, const uint8_t *head) {
#define NUMBER(at) (found->is_big_endian ? AV_RB32(head + (at)) : AV_RL32(head + (at)))
  static const struct { Kind kind; int bytes; } encodings[] = {
      [1] = {MU_LAW, 1}, [2] = {SIGNED, 1}, [3] = {SIGNED, 2}, [4] = {SIGNED, 3},
      [5] = {SIGNED, 4}, [6] = {FLOATING, 4}, [7] = {FLOATING, 8}, [27] = {A_LAW, 1},
  };
  uint32_t encoding = NUMBER(12);
  found->data_at = part.start + NUMBER(4);
  found->claimed = NUMBER(8);
  if (encoding >= sizeof encodings / sizeof *encodings || encodings[encoding].bytes == 0) return;
  if (NUMBER(20) > UINT16_MAX) return;
  describe(found, encodings[encoding].kind, encodings[encoding].bytes, NUMBER(20), NUMBER(16), 0);
}

static void take_description(const Source *source, Part part, Found *found, Chunk chunk) {
  uint8_t bytes[32];
  if (source_read(source, chunk.at, part.end, bytes, sizeof bytes) < (int)sizeof bytes) return;
  double rate_hz = av_int2double(AV_RB64(bytes));
  uint32_t flags = AV_RB32(bytes + 12), packet = AV_RB32(bytes + 16), channels = AV_RB32(bytes + 24);
  if (memcmp(bytes + 8, "lpcm", 4) || !(rate_hz >= 1 && rate_hz < 1e9) || channels < 1 || channels > UINT16_MAX) return;
  found->is_big_endian = !(flags & 2);
  describe(found, flags & 1 ? FLOATING : SIGNED, packet / channels, channels, llrint(rate_hz), 0);
}

static void find_in_caf(const Source *source, Part part, Found *found) {
  Chunk chunk;
  for (int64_t at = part.start + 8, count = 0; count < MAX_CHUNKS; count++, at = chunk.next) {
    if (!chunk_read(source, part, CAF_CHUNKS, at, &chunk)) break;
    if (!memcmp(chunk.name, "desc", 4)) take_description(source, part, found, chunk);
    if (!memcmp(chunk.name, "data", 4)) {
      found->data_at = chunk.at + 4;
      found->claimed = chunk.bytes - 4;
      break;
    }
  }
}

/* ---- The view ---- */

/* Live writers leave 0, the largest number or one a little smaller, in 32 bits with or without a sign, or in 64 bits. */
static bool is_placeholder(int64_t claimed) {
  return claimed <= 0 || (claimed >= 0x7f000000 && claimed <= 0x80000000) ||
         (claimed >= 0xff000000 && claimed <= 0xffffffff) || claimed > LARGEST_CHUNK;
}

/* Returns where the sound ends. */
static int64_t sound_end(const Source *source, Part part, const Found *found, bool *breaks_off) {
  int64_t left = part.end - found->data_at;
  if (found->claimed > 0 && found->claimed <= left) {
    int64_t end = found->data_at + found->claimed;
    bool continues = sound_continues(source, part, found->form, found->samples, found->data_at, end);
    return continues ? part.end : end;
  }
  if (!is_placeholder(found->claimed)) *breaks_off = true;
  bool is_empty = found->claimed == 0 && left > 0 && chunks_fill(source, part, found->form, found->data_at);
  return is_empty ? found->data_at : part.end;
}

/* Makes the header of a WAV file of unknown length. If the new header fits before the sound, the sound stays at its position in the file. */
static void make_head(View *view, const Found *found, int64_t data_at) {
  int least = 20 + found->format_bytes + found->format_bytes % 2 + 8;
  bool has_room = data_at == least || data_at >= least + 8;
  /* Chunks of a WAV file have even lengths. */
  int bytes = has_room && data_at <= MAX_HEAD_BYTES ? data_at + data_at % 2 : least;
  uint8_t *head = calloc(bytes, 1);
  if (!head) return;
  memcpy(head, "RIFF\xff\xff\xff\xffWAVEfmt ", 16);
  AV_WL32(head + 16, found->format_bytes);
  memcpy(head + 20, found->format, found->format_bytes);
  if (bytes > least) {
    memcpy(head + least - 8, "JUNK", 4);
    AV_WL32(head + least - 4, bytes - least - 8);
  }
  memcpy(head + bytes - 8, "data\xff\xff\xff\xff", 8);
  view->head = head;
  view->head_bytes = bytes;
}

static void find_sound(const Source *source, Part part, const uint8_t *head, Found *found) {
  static const char wave64[] = "riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1";
  bool is_wave = !memcmp(head + 8, "WAVE", 4);
  if (is_wave && (!memcmp(head, "RIFF", 4) || !memcmp(head, "RF64", 4) || !memcmp(head, "BW64", 4))) {
    find_in_wav(source, part, found, part.start + 12);
  } else if (is_wave && !memcmp(head, "RIFX", 4)) {
    found->form = FORM_CHUNKS;
    found->is_big_endian = true;
    find_in_wav(source, part, found, part.start + 12);
  } else if (!memcmp(head, wave64, 14)) {
    found->form = WAVE64_CHUNKS;
    find_in_wav(source, part, found, part.start + 40);
  } else if (!memcmp(head, "FORM", 4) && !memcmp(head + 8, "AIF", 3) && (head[11] == 'F' || head[11] == 'C')) {
    found->form = FORM_CHUNKS;
    found->is_big_endian = true;
    find_in_aiff(source, part, found, head[11] == 'C');
  } else if (!memcmp(head, ".snd", 4) || !memcmp(head, "dns.", 4)) {
    found->form = FORM_CHUNKS;
    found->is_big_endian = head[0] == '.';
    find_in_au(found, part, head);
  } else if (!memcmp(head, "caff\0\1", 6)) {
    found->form = CAF_CHUNKS;
    find_in_caf(source, part, found);
  }
}

void view_of_samples(const Source *source, Part part, View *view) {
  uint8_t head[24] = {0};
  Found found = {.codec = AV_CODEC_ID_NONE};
  source_read(source, part.start, part.end, head, sizeof head);
  find_sound(source, part, head, &found);
  if (found.data_at <= 0 || found.data_at >= part.end) return;
  int64_t end = sound_end(source, part, &found, &view->breaks_off);
  view->has_known_end = true;
  /* libav knows the places of more channels than two, which are named elsewhere in AIFF and CAF. */
  bool is_apple = !memcmp(head, "FORM", 4) || !memcmp(head, "caff", 4);
  bool is_left = found.format_bytes == 0 || (is_apple && found.channels > 2 && !is_placeholder(found.claimed));
  if (is_left) {
    /* What libav needs may be behind the sound, which it finds the end of everywhere but in AU. */
    if (!memcmp(head, ".snd", 4)) view->body.end = end;
    return;
  }
  /* The bytes of an incomplete sample at the end are left out. */
  int64_t unit = (int64_t)found.samples.bytes * found.channels;
  view->body.end = unit > 0 ? end - (end - found.data_at) % unit : end;
  make_head(view, &found, found.data_at - part.start);
  if (!view->head) return;
  view->body.start = found.data_at;
  view->codec = found.codec;
  view->sample_bytes = unit;
}
