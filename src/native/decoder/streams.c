#include <math.h>

#include <libavutil/samplefmt.h>

#include "decoder.h"
#include "reader.h"

/* -70 dB relative to full scale. A track without any larger sample is silent: no microphone stays below it. */
#define HEARD_FROM 3.16e-4
/* Tracks beside the main one: they are not the recording, or are meant to be mixed into it. */
#define NOT_MAIN (AV_DISPOSITION_COMMENT | AV_DISPOSITION_VISUAL_IMPAIRED | AV_DISPOSITION_HEARING_IMPAIRED | \
                  AV_DISPOSITION_DESCRIPTIONS | AV_DISPOSITION_DEPENDENT)

int list_audio(const AVFormatContext *format, AVStream **streams) {
  int count = 0;
  for (unsigned index = 0; index < format->nb_streams && count < MAX_AUDIO_TRACKS; index++) {
    AVStream *stream = format->streams[index];
    if (stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) streams[count++] = stream;
  }
  return count;
}

/* ---- The order in which players prefer tracks ---- */

/* Returns the place of a stream's program among those of an MPEG transport stream. */
static int program_of(const AVFormatContext *format, const AVStream *stream) {
  for (unsigned program = 0; program < format->nb_programs; program++) {
    const AVProgram *each = format->programs[program];
    for (unsigned index = 0; index < each->nb_stream_indexes; index++) {
      if (each->stream_index[index] == (unsigned)stream->index) return program;
    }
  }
  return format->nb_programs;
}

/*
 * Reports whether a player takes stream `a` rather than `b`, which comes before it in the file. Matroska's flag for default
 * tracks and MP4's for enabled ones are the same to libav.
 */
static bool is_preferred(const AVFormatContext *format, const AVStream *a, const AVStream *b) {
  bool is_main_a = (a->disposition & NOT_MAIN) == 0, is_main_b = (b->disposition & NOT_MAIN) == 0;
  bool is_default_a = (a->disposition & AV_DISPOSITION_DEFAULT) != 0;
  bool is_default_b = (b->disposition & AV_DISPOSITION_DEFAULT) != 0;
  if (is_default_a != is_default_b) return is_default_a;
  if (is_main_a != is_main_b) return is_main_a;
  return program_of(format, a) < program_of(format, b);
}

/* Brings the numbers of tracks into the order in which they are preferred. */
static void order_tracks(const AVFormatContext *format, AVStream *const *streams, int count, int *order) {
  for (int track = 0; track < count; track++) {
    int at = track;
    for (; at > 0 && is_preferred(format, streams[track], streams[order[at - 1]]); at--) order[at] = order[at - 1];
    order[at] = track;
  }
}

/* ---- Which tracks have sound ---- */

static double sample_size(const void *samples, enum AVSampleFormat format, int index) {
  switch (format) {
    case AV_SAMPLE_FMT_U8: return fabs((((const uint8_t *)samples)[index] - 128) / 0x1p7);
    case AV_SAMPLE_FMT_S16: return fabs(((const int16_t *)samples)[index] / 0x1p15);
    case AV_SAMPLE_FMT_S32: return fabs(((const int32_t *)samples)[index] / 0x1p31);
    case AV_SAMPLE_FMT_S64: return fabs(((const int64_t *)samples)[index] / 0x1p63);
    case AV_SAMPLE_FMT_FLT: return fabs(((const float *)samples)[index]);
    case AV_SAMPLE_FMT_DBL: return fabs(((const double *)samples)[index]);
    default: return 0;
  }
}

static bool has_sound(const AVFrame *frame) {
  if (frame_is_absurd(frame)) return false;
  enum AVSampleFormat packed = av_get_packed_sample_fmt(frame->format);
  int channels = frame->ch_layout.nb_channels;
  bool is_planar = av_sample_fmt_is_planar(frame->format) != 0;
  int planes = is_planar ? channels : 1, samples = is_planar ? frame->nb_samples : frame->nb_samples * channels;
  for (int plane = 0; plane < planes; plane++) {
    for (int index = 0; index < samples; index++) {
      if (sample_size(frame->extended_data[plane], packed, index) >= HEARD_FROM) return true;
    }
  }
  return false;
}

/* Decodes a packet and reports whether it has sound. Damage is silence. */
static bool is_heard(Reader *reader, const AVPacket *packet) {
  bool heard = false;
  if (send_packet(reader, packet) < 0) return false;
  while (receive_frame(reader) >= 0) {
    heard = heard || has_sound(reader->frame);
    av_frame_unref(reader->frame);
  }
  return heard;
}

/* Reports whether there is a decoder for a stream. */
static bool is_decodable(AVStream *stream) {
  Reader reader = {0};
  bool is_open = decoder_open(&reader, stream) == DECODED;
  decoder_close(&reader);
  return is_open;
}

/* Listens to the tracks of an open part that have not been heard yet, until all are heard. */
static void listen(Reader *part, bool *heard) {
  AVStream *streams[MAX_AUDIO_TRACKS];
  /* Each shares the part's demuxer. The decoder of a track that need not be heard is not open. */
  Reader ears[MAX_AUDIO_TRACKS] = {0};
  int waiting = 0, count = list_audio(part->format, streams);
  for (unsigned index = 0; index < part->format->nb_streams; index++) part->format->streams[index]->discard = AVDISCARD_ALL;
  for (int track = 0; track < count; track++) {
    if (heard[track] || decoder_open(&ears[track], streams[track]) != DECODED) continue;
    ears[track].frame = part->frame;
    streams[track]->discard = AVDISCARD_DEFAULT;
    waiting++;
  }
  while (waiting > 0 && read_packet(part) >= 0) {
    for (int track = 0; track < count; track++) {
      Reader *ear = &ears[track];
      bool is_waiting = ear->stream && !heard[track] && ear->stream->index == part->packet->stream_index;
      if (!is_waiting || !is_heard(ear, part->packet)) continue;
      heard[track] = true;
      streams[track]->discard = AVDISCARD_ALL;
      waiting--;
    }
    av_packet_unref(part->packet);
  }
  for (int track = 0; track < count; track++) decoder_close(&ears[track]);
}

/*
 * Finds which track of the recording is read, and which others have sound. In most files every track is heard in its first
 * seconds; only what is silent is decoded to its end.
 */
static void survey(const Source *source, Reading *reading) {
  bool heard[MAX_AUDIO_TRACKS] = {false}, is_playable[MAX_AUDIO_TRACKS] = {false};
  int order[MAX_AUDIO_TRACKS], count = 0;
  for (int part = 0; part < source->part_count; part++) {
    Reader reader;
    AVStream *streams[MAX_AUDIO_TRACKS];
    if (reader_open_file(&reader, source, source->parts[part], reading) == DECODED) {
      int found = list_audio(reader.format, streams);
      if (count == 0 && found > 0) {
        count = found;
        order_tracks(reader.format, streams, count, order);
        for (int track = 0; track < count; track++) is_playable[track] = is_decodable(streams[track]);
      }
      listen(&reader, heard);
    }
    reader_close(&reader);
  }
  int main_track = TRACK_UNKNOWN;
  for (int place = count - 1; place >= 0; place--) {
    int track = order[place];
    bool is_better = heard[track] || main_track == TRACK_UNKNOWN || !heard[main_track];
    if (is_playable[track] && is_better) main_track = track;
  }
  reading->track = main_track;
  for (int track = 0; track < MAX_AUDIO_TRACKS; track++) {
    reading->is_mixed[track] = heard[track] && reading->wants_all;
    reading->is_left_out[track] = heard[track] && track != main_track && !reading->wants_all;
  }
}

/* ---- Choosing ---- */

Failure choose_stream(Reader *reader, const Source *source, Reading *reading) {
  AVStream *streams[MAX_AUDIO_TRACKS] = {NULL};
  int order[MAX_AUDIO_TRACKS], count = list_audio(reader->format, streams);
  Failure failure = NO_AUDIO;
  if (count > 1 && reading->track == TRACK_UNKNOWN) survey(source, reading);
  order_tracks(reader->format, streams, count, order);
  bool has_wanted = reading->track >= 0 && reading->track < count;
  /* Where the wanted track cannot be decoded, or this part lacks it, the others follow. */
  for (int place = has_wanted ? -1 : 0; place < count && !reader->stream; place++) {
    AVStream *stream = streams[place < 0 ? reading->track : order[place]];
    Failure opened = decoder_open(reader, stream);
    if (opened != DECODED && (failure == NO_AUDIO || opened == NO_MEMORY)) failure = opened;
  }
  for (unsigned index = 0; index < reader->format->nb_streams; index++) {
    AVStream *stream = reader->format->streams[index];
    if (stream != reader->stream) stream->discard = AVDISCARD_ALL;
  }
  return reader->stream ? DECODED : failure;
}
