#include <math.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <libavutil/samplefmt.h>

#include "decoder.h"
#include "reader.h"

/* Size of one read of a WAV file. With libav's own 4 KiB the calls take longer than decoding. */
#define WAV_PACKET_BYTES "65536"
/*
 * In WAV files that claim 16-bit samples, libav looks for compressed sound in its first 32 packets. Of this size they are
 * 2 MB, which takes 40 ms. These are as many bytes as 32 of 4 KiB.
 */
#define WAV_PROBED_PACKETS "2"
#define MAX_STREAMS "64"
#define FRAMES_BETWEEN_PROGRESS 64
/* One after the other: when nothing can be read behind them, the recording ends there. */
#define MAX_REFUSED_PACKETS 1000

/* A recording is one file only: references to other files are not followed. */
static int refuse_other_files(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                              AVDictionary **options) {
  (void)format, (void)url, (void)flags, (void)options;
  *io = NULL;
  return AVERROR(EPERM);
}

void decoder_close(Reader *reader) {
  avcodec_free_context(&reader->codec);
  amr_close(&reader->amr);
}

void reader_close(Reader *reader) {
  decoder_close(reader);
  av_frame_free(&reader->frame);
  av_packet_free(&reader->packet);
  avformat_close_input(&reader->format);
  source_free_io(reader->io);
  view_free(&reader->view);
  *reader = (Reader){0};
}

static Failure failure_of(int status) { return status == AVERROR(ENOMEM) ? NO_MEMORY : UNDECODABLE; }

static bool is_wav(AVIOContext *io) {
  uint8_t head[12];
  int got = avio_read(io, head, sizeof head);
  return avio_seek(io, 0, SEEK_SET) == 0 && got == sizeof head && !memcmp(head + 8, "WAVE", 4);
}

/* Goes to the first frame. What libav would look for in frames is known. */
static int open_amr_file(Reader *reader) {
  int channels = 0;
  int64_t head_bytes = amr_file_head(reader->io, &channels);
  if (head_bytes < 0 || avio_seek(reader->io, head_bytes, SEEK_SET) < 0) return AVERROR_INVALIDDATA;
  av_channel_layout_default(&reader->format->streams[0]->codecpar->ch_layout, channels);
  reader->is_amr_file = true;
  return 0;
}

static int open_format(Reader *reader, Reading *reading) {
  AVDictionary *settings = NULL;
  bool has_made_head = reader->view.head != NULL;
  const AVInputFormat *wav = has_made_head ? av_find_input_format("wav") : NULL;
  const AVInputFormat *forced = wav ? wav : reading_input(reading, reader->io, &settings);
  if (has_made_head) av_dict_set(&settings, "ignore_length", "1", 0);
  av_dict_set(&settings, "max_streams", MAX_STREAMS, 0);
  av_dict_set(&settings, "merge_pmt_versions", "1", 0);
  if (is_wav(reader->io)) av_dict_set(&settings, "max_probe_packets", WAV_PROBED_PACKETS, 0);
  reader->format->pb = reader->io;
  reader->format->flags |= AVFMT_FLAG_CUSTOM_IO;
  reader->format->io_open = refuse_other_files;
  int status = avformat_open_input(&reader->format, "", forced, &settings);
  av_dict_free(&settings);
  if (status < 0) return status;
  if (!strcmp(reader->format->iformat->name, "wav")) {
    av_opt_set(reader->format->priv_data, "max_size", WAV_PACKET_BYTES, 0);
  }
  if (!strncmp(reader->format->iformat->name, "amr", 3)) return open_amr_file(reader);
  status = avformat_find_stream_info(reader->format, NULL);
  if (reader->view.codec != AV_CODEC_ID_NONE) {
    AVCodecParameters *parameters = reader->format->streams[0]->codecpar;
    parameters->codec_id = reader->view.codec;
    parameters->bits_per_coded_sample = av_get_bits_per_sample(reader->view.codec);
  }
  return status;
}

static Failure open_libav(AVCodecContext **context, const AVCodec *codec, const AVStream *stream) {
  *context = avcodec_alloc_context3(codec);
  if (!*context) return NO_MEMORY;
  if (avcodec_parameters_to_context(*context, stream->codecpar) < 0) return NO_MEMORY;
  (*context)->pkt_timebase = stream->time_base;
  (*context)->thread_count = 1;
  int status = avcodec_open2(*context, codec, NULL);
  return status < 0 ? failure_of(status) : DECODED;
}

Failure decoder_open(Reader *reader, AVStream *stream) {
  const AVCodecParameters *parameters = stream->codecpar;
  const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
  int channels = parameters->ch_layout.nb_channels;
  if (!codec) return UNDECODABLE;
  if (channels < 1 || channels > MAX_CHANNELS || parameters->sample_rate < MIN_RATE_HZ ||
      parameters->sample_rate > MAX_RATE_HZ) {
    return ABSURD_FORMAT;
  }
  Failure failure = DECODED;
  if (is_amr(codec->id)) {
    reader->amr = amr_open(parameters, stream->time_base);
    if (!reader->amr) failure = NO_MEMORY;
  } else {
    failure = open_libav(&reader->codec, codec, stream);
  }
  if (failure == DECODED) reader->stream = stream;
  else decoder_close(reader);
  return failure;
}

/*
 * Reports whether time stamps come from the file. In other formats libav computes them from the rate of the first frame,
 * from an average bit rate (AVI) or from the position in an interleaved block (RealMedia); there samples are counted.
 */
static bool has_clock(const Reader *reader) {
  static const char *const names[] = {"ogg", "matroska,webm", "asf", "flv", "mpegts", "mpeg"};
  const char *name = reader->format->iformat->name;
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    if (!strcmp(name, names[index])) return true;
  }
  return !strncmp(name, "mov,", 4);
}

/*
 * A page of an Ogg stream says when it ends. Of FLAC, libav does not know then how long the page was, and counts from 0: in
 * a recording of a broadcast, the second page would begin hours later.
 */
static bool is_first_page_timeless(const Reader *reader) {
  return !strcmp(reader->format->iformat->name, "ogg") && reader->stream->codecpar->codec_id == AV_CODEC_ID_FLAC &&
         reader->format->nb_streams == 1;
}

static void note_page(Reader *reader, const AVPacket *packet) {
  if (!reader->is_first_page_timeless) return;
  if (reader->first_page < 0) reader->first_page = packet->pos;
  reader->is_timeless = packet->pos == reader->first_page;
}

Failure reader_open_file(Reader *reader, const Source *source, Part part, Reading *reading) {
  *reader = (Reader){
      .view = view_of(source, part),
      .format = avformat_alloc_context(),
      .packet = av_packet_alloc(),
      .frame = av_frame_alloc(),
      .first_page = -1,
  };
  reader->io = source_io(source, &reader->view);
  if (!reader->io || !reader->format || !reader->packet || !reader->frame) return NO_MEMORY;
  int status = open_format(reader, reading);
  if (status < 0) return failure_of(status);
  reader->has_clock = has_clock(reader);
  return DECODED;
}

static Failure reader_open(Reader *reader, const Source *source, Part part, Reading *reading) {
  Failure failure = reader_open_file(reader, source, part, reading);
  if (failure == DECODED) failure = choose_stream(reader, source, reading);
  if (failure == DECODED) reader->is_first_page_timeless = is_first_page_timeless(reader);
  return failure;
}

double start_s(const Reader *reader) {
  int64_t start = reader->format->start_time;
  if (start == AV_NOPTS_VALUE || reader->is_first_page_timeless) return NAN;
  return (double)start / AV_TIME_BASE;
}

/*
 * Reports whether the claimed duration may count from 0 on, and not from the first time stamp on. What writers of these
 * containers claim for a recording whose clock begins late differs.
 */
static bool may_claim_from_zero(const Reader *reader) {
  const char *name = reader->format->iformat->name;
  return !strcmp(name, "matroska,webm") || !strcmp(name, "asf") || !strcmp(name, "flv");
}

/*
 * Returns the duration that the part claims for its audio. An estimate from the bit rate is wrong for variable rates, and
 * if time stamps may jump, the last one is meaningless. With several streams only the stream's own duration counts.
 *
 * @param played_s the seconds of its edit list, without silence at both ends, which libav counts; NAN without a list
 */
static double claimed_s(const Reader *reader, double played_s) {
  const AVFormatContext *format = reader->format;
  double claimed_s = NAN, first_s = start_s(reader);
  /* Where the container says how many bytes there are, these were compared with the file. */
  if (reader->view.has_known_end) return NAN;
  if (format->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE) return NAN;
  if (format->iformat->flags & AVFMT_TS_DISCONT) return NAN;
  if (reader->stream->duration > 0) claimed_s = reader->stream->duration * av_q2d(reader->stream->time_base);
  else if (format->nb_streams == 1 && format->duration > 0) claimed_s = (double)format->duration / AV_TIME_BASE;
  if (played_s > 0 && played_s < claimed_s) claimed_s = played_s;
  return may_claim_from_zero(reader) && first_s > 0 && claimed_s > first_s ? claimed_s - first_s : claimed_s;
}

/* ---- Packets and frames ---- */

static int read_any_packet(Reader *reader) {
  if (reader->is_amr_file) return amr_read(reader->amr, reader->io, reader->packet);
  int status = av_read_frame(reader->format, reader->packet);
  if (status < 0 || reader->view.has_known_end) return status;
  bool is_wanted = reader->stream && reader->packet->stream_index == reader->stream->index;
  if (is_wanted && reader->packet->flags & AV_PKT_FLAG_CORRUPT && avio_feof(reader->io)) reader->ending.met_end = true;
  return status;
}

int read_packet(Reader *reader) {
  int status = read_any_packet(reader);
  if (status != AVERROR_INVALIDDATA) return status;
  for (int refused = 1; status == AVERROR_INVALIDDATA && refused < MAX_REFUSED_PACKETS; refused++) {
    status = read_any_packet(reader);
  }
  return status == AVERROR_EOF ? AVERROR_INVALIDDATA : status;
}

int send_packet(Reader *reader, const AVPacket *packet) {
  return reader->amr ? amr_send(reader->amr, packet) : avcodec_send_packet(reader->codec, packet);
}

int receive_frame(Reader *reader) {
  return reader->amr ? amr_receive(reader->amr, reader->frame) : avcodec_receive_frame(reader->codec, reader->frame);
}

/* Gives the decoder's frame to the clock. */
static Failure hand_over(Reader *reader, Clock *clock, ReadFacts *facts) {
  AVFrame *frame = av_frame_alloc();
  if (!frame) return NO_MEMORY;
  av_frame_move_ref(frame, reader->frame);
  reader->frames++;
  if (frame_is_absurd(frame)) {
    if (frame->sample_rate > 0) facts->lost_s += (double)frame->nb_samples / frame->sample_rate;
    av_frame_free(&frame);
    return DECODED;
  }
  /* Silence has the place of what is missing. */
  if (reader->amr && frame->flags & AV_FRAME_FLAG_CORRUPT) facts->lost_s += (double)frame->nb_samples / frame->sample_rate;
  int64_t time = reader->has_clock && !reader->is_timeless ? frame->best_effort_timestamp : AV_NOPTS_VALUE;
  return clock_take(clock, frame, time == AV_NOPTS_VALUE ? NAN : time * av_q2d(reader->stream->time_base));
}

/* Gives the clock a silent frame, where no time stamps say that there is a pause. */
static Failure lay_silence(const Reader *reader, Clock *clock, double seconds) {
  const AVCodecParameters *parameters = reader->stream->codecpar;
  int64_t samples = llrint(seconds * parameters->sample_rate);
  if (reader->has_clock || samples < 1 || samples > parameters->sample_rate) return DECODED;
  AVFrame *frame = av_frame_alloc();
  if (!frame) return NO_MEMORY;
  frame->format = AV_SAMPLE_FMT_FLT;
  frame->sample_rate = parameters->sample_rate;
  frame->nb_samples = (int)samples;
  if (av_channel_layout_copy(&frame->ch_layout, &parameters->ch_layout) < 0 || av_frame_get_buffer(frame, 0) < 0) {
    av_frame_free(&frame);
    return NO_MEMORY;
  }
  av_samples_set_silence(frame->extended_data, 0, frame->nb_samples, frame->ch_layout.nb_channels, frame->format);
  return clock_take(clock, frame, NAN);
}

Failure decode_packet(Reader *reader, const AVPacket *packet, Clock *clock, ReadFacts *facts) {
  double packet_s = packet ? packet->duration * av_q2d(reader->stream->time_base) : 0;
  /* A packet without bytes is one that was not transmitted. A decoder would take it for the end. */
  if (packet && packet->size == 0) return lay_silence(reader, clock, packet_s);
  int status = send_packet(reader, packet);
  if (status == AVERROR(ENOMEM)) return NO_MEMORY;
  if (status < 0) {
    facts->lost_s += packet_s;
    reader->failures++;
    return DECODED;
  }
  while ((status = receive_frame(reader)) >= 0) {
    Failure failure = hand_over(reader, clock, facts);
    if (failure != DECODED) return failure;
  }
  if (status == AVERROR(ENOMEM)) return NO_MEMORY;
  if (status != AVERROR(EAGAIN) && status != AVERROR_EOF) {
    facts->lost_s += packet_s;
    reader->failures++;
  }
  return DECODED;
}

/* Notes a point behind the packet, unless the clock waits for more frames. */
static void note_point(Part part, int64_t position, int64_t time, const Clock *clock) {
  const Tracks *tracks = clock->tracks;
  Outline *outline = tracks->options.outline;
  if (!outline || clock->at_s < outline->next_point_s || !clock->is_started || clock->held_count > 0) return;
  if (position < 0 && time == AV_NOPTS_VALUE) return;
  outline_note(outline, (Point){
      .part_start = part.start, .part_end = part.end, .position = position, .time = time,
      .at_s = clock->at_s, .base_s = clock->base_s,
      .stretch_position = tracks->stretch_position, .stretch_samples = tracks->stretch_samples});
}

static Failure read_packets(Reader *reader, Part part, const ReadEvents *events, Clock *clock, ReadFacts *facts) {
  Failure failure = DECODED;
  int status = 0;
  for (int count = 0; failure == DECODED; count++) {
    status = read_packet(reader);
    if (status < 0) break;
    if (reader->packet->stream_index == reader->stream->index) {
      int64_t position = reader->packet->pos, time = reader->packet->pts;
      note_page(reader, reader->packet);
      Reader before = *reader;
      failure = decode_packet(reader, reader->packet, clock, facts);
      ending_note(reader, reader->packet, &before);
      if (failure == DECODED) note_point(part, position, time, clock);
    }
    av_packet_unref(reader->packet);
    if (count % FRAMES_BETWEEN_PROGRESS == 0) events->on_progress(events->context, clock->at_s);
  }
  if (status == AVERROR(ENOMEM)) return NO_MEMORY;
  if (status < 0 && status != AVERROR_EOF) facts->broke_off = true;
  if (failure == DECODED) failure = decode_packet(reader, NULL, clock, facts);
  return failure == DECODED ? clock_settle(clock) : failure;
}

static Failure read_part(const Source *source, Part part, Reading *reading, const ReadEvents *events,
                         Clock *clock, ReadFacts *facts) {
  Reader reader;
  Failure failure = reader_open(&reader, source, part, reading);
  if (failure == DECODED) {
    facts->claimed_s += claimed_s(&reader, source_played_s(source, part, reader.stream->id));
    events->on_claim(events->context, facts->claimed_s);
    failure = clock_begin_part(clock, start_s(&reader));
  }
  if (failure == DECODED && has_lanes(reading)) failure = read_part_in_lanes(&reader, reading, events, clock, facts);
  else if (failure == DECODED) failure = read_packets(&reader, part, events, clock, facts);
  if (reader.view.breaks_off || breaks_off(source, reader.view.body)) facts->broke_off = true;
  if (failure == DECODED && ends_in_packet(&reader, source)) facts->broke_off = true;
  reader_close(&reader);
  return failure;
}

Failure read_parts(const Source *source, Reading *reading, const ReadEvents *events, Clock *clock,
                   ReadFacts *facts) {
  Failure first = DECODED;
  *facts = (ReadFacts){0};
  Outline *outline = clock->tracks->options.outline;
  Part part = source->parts[0];
  if (outline) {
    outline_note(outline, (Point){.part_start = part.start, .part_end = part.end, .position = -1, .time = AV_NOPTS_VALUE});
  }
  for (int index = 0; index < source->part_count; index++) {
    Failure failure = read_part(source, source->parts[index], reading, events, clock, facts);
    if (failure == DECODED) continue;
    bool is_about_part = failure == UNDECODABLE || failure == NO_AUDIO || failure == ABSURD_FORMAT;
    if (!is_about_part) return failure;
    /* A part that cannot be read is missing. The others are still decoded. */
    facts->broke_off = true;
    facts->claimed_s = NAN;
    if (first == DECODED) first = failure;
  }
  return clock->at_s > 0 ? DECODED : first;
}

/* ---- From a point on ---- */

/*
 * Formats whose demuxers find the next packet from any position by themselves. In all other formats the demuxer has to
 * find a packet by its time stamp.
 */
static bool is_sought_by_position(const Reader *reader) {
  static const char *const names[] = {"mp3", "aac", "loas", "ac3", "eac3", "dts", "wav", "w64", "au",
                                      "amr", "amrnb", "amrwb", "gsm", "g722", "sln"};
  const char *name = reader->format->iformat->name;
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    if (!strcmp(name, names[index])) return true;
  }
  return false;
}

static bool seek(Reader *reader, const Point *point) {
  if (reader->is_amr_file) return point->position >= 0 && avio_seek(reader->io, point->position, SEEK_SET) >= 0;
  if (is_sought_by_position(reader)) {
    return point->position >= 0 && av_seek_frame(reader->format, -1, point->position, AVSEEK_FLAG_BYTE) >= 0;
  }
  if (point->time == AV_NOPTS_VALUE) return false;
  return avformat_seek_file(reader->format, reader->stream->index, INT64_MIN, point->time, point->time, 0) >= 0;
}

/* Reads up to the point's packet without decoding. False: there is none, or a later one came. */
static bool find_packet(Reader *reader, const Point *point) {
  bool by_time = !is_sought_by_position(reader) && point->time != AV_NOPTS_VALUE;
  while (read_packet(reader) >= 0) {
    const AVPacket *packet = reader->packet;
    if (packet->stream_index == reader->stream->index) {
      int64_t at = by_time ? packet->pts : packet->pos, wanted = by_time ? point->time : point->position;
      if (at == wanted) return true;
      if (at > wanted && at != AV_NOPTS_VALUE) break;
    }
    av_packet_unref(reader->packet);
  }
  av_packet_unref(reader->packet);
  return false;
}

/*
 * Goes to the sound behind a point of an uncompressed recording that a version has noted which read its container with libav.
 * Its packets were shorter, and began elsewhere, so that the point's packet cannot be found. Only such a version noted a base
 * for sound without time stamps. False: the point is another one.
 */
static bool seek_behind_older(Reader *reader, const Point *point) {
  if (reader->view.sample_bytes == 0 || isnan(point->base_s)) return false;
  int64_t samples = llrint((point->at_s - point->base_s) * reader->stream->codecpar->sample_rate);
  int64_t position = reader->view.head_bytes + samples * reader->view.sample_bytes;
  return av_seek_frame(reader->format, -1, position, AVSEEK_FLAG_BYTE) >= 0;
}

/* Gives the point's packet to the decoder, which needs it for the next one, and drops its sound. */
static Failure prime(Reader *reader) {
  AVPacket *packet = reader->packet;
  /* Uncompressed sound needs none. A decoder would take a packet without bytes, which was not transmitted, for the end. */
  if (packet->size == 0) return DECODED;
  /*
   * The decoder, and after a seek the demuxer too, take this packet for the first one of the recording, whose priming
   * samples are skipped. The flag ends that, from the first frame on.
   */
  av_packet_side_data_remove(packet->side_data, &packet->side_data_elems, AV_PKT_DATA_SKIP_SAMPLES);
  if (reader->codec) reader->codec->flags2 |= AV_CODEC_FLAG2_SKIP_MANUAL;
  int status = send_packet(reader, packet);
  av_packet_unref(packet);
  while (status >= 0 && (status = receive_frame(reader)) >= 0) {
    if (reader->codec) reader->codec->flags2 &= ~AV_CODEC_FLAG2_SKIP_MANUAL;
    av_frame_unref(reader->frame);
  }
  return status == AVERROR(ENOMEM) ? NO_MEMORY : DECODED;
}

static Failure open_at(Reader *reader, const Source *source, Reading *reading, const Point *point) {
  Part part = {.start = point->part_start, .end = point->part_end};
  Failure failure = reader_open(reader, source, part, reading);
  if (failure != DECODED || seek_behind_older(reader, point) || (seek(reader, point) && find_packet(reader, point))) return failure;
  /* The packet is found in any case by reading from the beginning. */
  reader_close(reader);
  failure = reader_open(reader, source, part, reading);
  return failure == DECODED && !find_packet(reader, point) ? UNDECODABLE : failure;
}

Failure read_from(const Source *source, Reading *reading, const Point *point, const ReadEvents *events,
                  Clock *clock, ReadFacts *facts) {
  if (point->position < 0 && point->time == AV_NOPTS_VALUE) {
    return read_parts(source, reading, events, clock, facts);
  }
  *facts = (ReadFacts){0};
  Reader reader;
  Failure failure = open_at(&reader, source, reading, point);
  if (failure == DECODED) failure = prime(&reader);
  if (failure == DECODED) {
    clock_resume(clock, point->at_s, point->base_s);
    failure = read_packets(&reader, source->parts[0], events, clock, facts);
  }
  reader_close(&reader);
  for (int index = 1; failure == DECODED && index < source->part_count; index++) {
    failure = read_part(source, source->parts[index], reading, events, clock, facts);
    if (failure == UNDECODABLE || failure == NO_AUDIO || failure == ABSURD_FORMAT) failure = DECODED;
  }
  return failure;
}
