#include <stdio.h>
#include <string.h>

#include <libavutil/mem.h>

#include "decoder.h"

/* Bytes at the beginning of a file in which libav looks for a signature. */
#define PROBED_BYTES 32768
/*
 * libav's score for a format that the bytes show surely. Any bytes have lower ones: some noise looks like a frame of MP3.
 */
#define SURE_SCORE (AVPROBE_SCORE_EXTENSION + 1)

/* Reads `DEMUXER,RATE_HZ,CHANNELS,CODE_BITS`. */
static bool parse_format(Reading *reading, const char *text) {
  char name[32];
  int length = 0;
  if (!strcmp(text, "-")) return true;
  int got = sscanf(text, "%31[a-z0-9_],%d,%d,%d%n", name, &reading->raw_rate_hz, &reading->raw_channels,
                   &reading->raw_code_bits, &length);
  if (got != 4 || text[length] != 0) return false;
  reading->raw = av_find_input_format(name);
  return reading->raw && reading->raw_rate_hz > 0 && reading->raw_channels > 0;
}

/* Reads numbers of tracks with commas between them: one is read alone, several are read side by side. */
static bool parse_numbers(Reading *reading, const char *text) {
  int count = 0;
  for (int length = 0;; text += length + 1, count++) {
    unsigned track;
    if (sscanf(text, "%u%n", &track, &length) != 1 || track >= MAX_AUDIO_TRACKS) return false;
    /* Also for a part that lacks all of several. */
    if (count == 0) reading->track = track;
    reading->is_mixed[track] = count > 0 || text[length] == ',';
    if (text[length] == 0) return true;
    if (text[length] != ',') return false;
  }
}

bool reading_parse(Reading *reading, const char *format, const char *tracks) {
  *reading = (Reading){.track = TRACK_UNKNOWN};
  reading->wants_all = !strcmp(tracks, "all");
  if (!parse_format(reading, format)) return false;
  return reading->wants_all || !strcmp(tracks, "one") || parse_numbers(reading, tracks);
}

/* Reports whether the bytes themselves show what the file is. */
static bool has_signature(AVIOContext *io) {
  uint8_t *bytes = av_mallocz(PROBED_BYTES + AVPROBE_PADDING_SIZE);
  if (!bytes) return false;
  int got = avio_read(io, bytes, PROBED_BYTES), score = 0;
  AVProbeData data = {.filename = "", .buf = bytes, .buf_size = got > 0 ? got : 0};
  const AVInputFormat *found = av_probe_input_format3(&data, 1, &score);
  av_free(bytes);
  return avio_seek(io, 0, SEEK_SET) == 0 && found && score >= SURE_SCORE;
}

const AVInputFormat *reading_input(Reading *reading, AVIOContext *io, AVDictionary **settings) {
  if (!reading->raw || has_signature(io)) return NULL;
  /* Each demuxer takes those of the settings that it has. */
  char channels[16];
  snprintf(channels, sizeof channels, "%dc", reading->raw_channels);
  av_dict_set_int(settings, "sample_rate", reading->raw_rate_hz, 0);
  av_dict_set(settings, "ch_layout", channels, 0);
  if (reading->raw_code_bits > 0) av_dict_set_int(settings, "code_size", reading->raw_code_bits, 0);
  reading->is_raw = true;
  return reading->raw;
}
