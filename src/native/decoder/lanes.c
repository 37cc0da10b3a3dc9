#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "reader.h"

/*
 * Several audio tracks of a file, side by side: each becomes a channel of 16 kHz. Every track has a clock of its own, so that
 * tracks that begin at different times stay in step. The tracks of a file are interleaved, so only what one track is ahead of
 * another waits in memory.
 */

/*
 * A track that is further behind than this is taken to be silent: it has ended, or begins later. What comes after all counts as
 * lost.
 */
#define LONGEST_LAG ((int64_t)30 * OUTPUT_RATE_HZ)
#define FRAME_SAMPLES 4096
/* Longer silence of all tracks takes no space on the disk. */
#define LONG_SILENCE OUTPUT_RATE_HZ

/* Samples of a track at their position. */
typedef struct {
  int64_t position;
  int count;
  float *samples;
} Piece;

typedef struct {
  /* Shares its demuxer with the other lanes. */
  Reader reader;
  Clock clock;
  Tracks tracks;
  ReadFacts facts;
  Piece *pieces;
  int piece_count, piece_capacity;
} Lane;

typedef struct {
  Lane *lanes[MAX_AUDIO_TRACKS];
  int count;
  /* Samples of the part that have been handed on, and the clock that they went to. */
  int64_t done;
  Clock *clock;
} Lanes;

/* ---- Samples that wait ---- */

static Failure keep_piece(void *context, int64_t position, const float *samples, int count) {
  Lane *lane = context;
  if (lane->piece_count == lane->piece_capacity) {
    int capacity = 2 * lane->piece_capacity + 64;
    Piece *pieces = realloc(lane->pieces, capacity * sizeof *pieces);
    if (!pieces) return NO_MEMORY;
    lane->pieces = pieces, lane->piece_capacity = capacity;
  }
  Piece piece = {.position = position, .count = count, .samples = malloc(count * sizeof(float))};
  if (!piece.samples) return NO_MEMORY;
  memcpy(piece.samples, samples, count * sizeof(float));
  lane->pieces[lane->piece_count++] = piece;
  return DECODED;
}

/* Copies the samples from `from` on into a channel, and frees what is before its end. */
static void take_pieces(Lane *lane, int64_t from, float *channel, int count) {
  int kept = 0;
  for (int index = 0; index < lane->piece_count; index++) {
    Piece piece = lane->pieces[index];
    int64_t begin = piece.position > from ? piece.position : from, end = piece.position + piece.count;
    if (piece.position < from) lane->facts.lost_s += (double)((end < from ? end : from) - piece.position) / OUTPUT_RATE_HZ;
    if (end > from + count) end = from + count;
    if (begin < end) memcpy(channel + (begin - from), piece.samples + (begin - piece.position), (end - begin) * sizeof(float));
    if (piece.position + piece.count <= from + count) {
      free(piece.samples);
      continue;
    }
    /* The rest waits. */
    int64_t used = end > piece.position ? end - piece.position : 0;
    memmove(piece.samples, piece.samples + used, (piece.count - used) * sizeof(float));
    lane->pieces[kept++] = (Piece){.position = piece.position + used, .count = piece.count - used, .samples = piece.samples};
  }
  lane->piece_count = kept;
}

/* ---- Handing on ---- */

static AVFrame *new_frame(int channels, int samples) {
  AVFrame *frame = av_frame_alloc();
  if (!frame) return NULL;
  frame->format = AV_SAMPLE_FMT_FLTP;
  frame->sample_rate = OUTPUT_RATE_HZ;
  frame->nb_samples = samples;
  frame->ch_layout = (AVChannelLayout){.order = AV_CHANNEL_ORDER_UNSPEC, .nb_channels = channels};
  if (av_frame_get_buffer(frame, 0) < 0) av_frame_free(&frame);
  return frame;
}

/* Returns where the next samples of any lane are; `until` when none are before it. */
static int64_t next_sound(const Lanes *lanes, int64_t until) {
  for (int index = 0; index < lanes->count; index++) {
    const Lane *lane = lanes->lanes[index];
    if (lane->piece_count > 0 && lane->pieces[0].position < until) until = lane->pieces[0].position;
  }
  return until;
}

static Failure hand_on_silence(Lanes *lanes, int64_t samples) {
  double seconds = (double)samples / OUTPUT_RATE_HZ;
  lanes->done += samples;
  lanes->clock->at_s += seconds;
  return tracks_skip(lanes->clock->tracks, seconds);
}

/* Hands all lanes on up to a position. */
static Failure hand_on(Lanes *lanes, int64_t until) {
  Failure failure = DECODED;
  while (lanes->done < until && failure == DECODED) {
    int64_t silence = next_sound(lanes, until) - lanes->done, left = until - lanes->done;
    if (silence >= LONG_SILENCE) {
      failure = hand_on_silence(lanes, silence);
      continue;
    }
    int samples = left < FRAME_SAMPLES ? left : FRAME_SAMPLES;
    AVFrame *frame = new_frame(lanes->count, samples);
    if (!frame) return NO_MEMORY;
    for (int channel = 0; channel < lanes->count; channel++) {
      float *plane = (float *)frame->extended_data[channel];
      memset(plane, 0, samples * sizeof(float));
      take_pieces(lanes->lanes[channel], lanes->done, plane, samples);
    }
    lanes->done += samples;
    failure = clock_take(lanes->clock, frame, NAN);
  }
  return failure;
}

/* Hands on what no lane can add to any more. */
static Failure hand_on_ready(Lanes *lanes) {
  int64_t least = INT64_MAX, most = 0;
  for (int index = 0; index < lanes->count; index++) {
    int64_t position = lanes->lanes[index]->tracks.position;
    if (position < least) least = position;
    if (position > most) most = position;
  }
  return hand_on(lanes, least > most - LONGEST_LAG ? least : most - LONGEST_LAG);
}

/* ---- Lanes ---- */

static void lane_close(Lane *lane) {
  for (int index = 0; index < lane->piece_count; index++) free(lane->pieces[index].samples);
  free(lane->pieces);
  clock_close(&lane->clock);
  tracks_close(&lane->tracks);
  decoder_close(&lane->reader);
  av_frame_free(&lane->reader.frame);
  free(lane);
}

/* Makes a lane for a stream of an open part. Without a decoder for it there is none. */
static Failure lane_open(Lanes *lanes, const Reader *part, AVStream *stream) {
  Lane *lane = calloc(1, sizeof *lane);
  if (!lane) return NO_MEMORY;
  lane->reader = (Reader){.format = part->format, .frame = av_frame_alloc(), .has_clock = part->has_clock};
  tracks_open(&lane->tracks, (TrackOptions){.max_s = lanes->clock->tracks->options.max_s, .take = keep_piece, .context = lane});
  Failure failure = decoder_open(&lane->reader, stream);
  if (failure == DECODED && !lane->reader.frame) failure = NO_MEMORY;
  if (failure == DECODED) failure = clock_open(&lane->clock, &lane->tracks);
  if (failure == DECODED) failure = clock_begin_part(&lane->clock, start_s(part));
  if (failure == DECODED) {
    lanes->lanes[lanes->count++] = lane;
    stream->discard = AVDISCARD_DEFAULT;
    return DECODED;
  }
  lane_close(lane);
  return failure == NO_MEMORY ? NO_MEMORY : DECODED;
}

static Lane *lane_of(const Lanes *lanes, const AVPacket *packet) {
  for (int index = 0; index < lanes->count; index++) {
    if (lanes->lanes[index]->reader.stream->index == packet->stream_index) return lanes->lanes[index];
  }
  return NULL;
}

/* Reads all packets of the part, and hands the sound on as it comes. */
static Failure read_lanes(Lanes *lanes, Reader *part, const ReadEvents *events, ReadFacts *facts) {
  Failure failure = DECODED;
  int status;
  while (failure == DECODED && (status = read_packet(part)) >= 0) {
    Lane *lane = lane_of(lanes, part->packet);
    if (lane) failure = decode_packet(&lane->reader, part->packet, &lane->clock, &lane->facts);
    av_packet_unref(part->packet);
    if (failure == DECODED) failure = hand_on_ready(lanes);
    events->on_progress(events->context, lanes->clock->at_s);
  }
  if (failure == DECODED && status == AVERROR(ENOMEM)) failure = NO_MEMORY;
  if (failure == DECODED && status != AVERROR_EOF) facts->broke_off = true;
  return failure;
}

static Failure finish_lanes(Lanes *lanes) {
  Failure failure = DECODED;
  int64_t end = 0;
  for (int index = 0; index < lanes->count && failure == DECODED; index++) {
    Lane *lane = lanes->lanes[index];
    failure = decode_packet(&lane->reader, NULL, &lane->clock, &lane->facts);
    if (failure == DECODED) failure = clock_settle(&lane->clock);
    if (failure == DECODED) failure = tracks_finish(&lane->tracks);
    if (lane->tracks.position > end) end = lane->tracks.position;
  }
  return failure == DECODED ? hand_on(lanes, end) : failure;
}

bool has_lanes(const Reading *reading) {
  int count = 0;
  for (int track = 0; track < MAX_AUDIO_TRACKS; track++) count += reading->is_mixed[track];
  return count > 1;
}

Failure read_part_in_lanes(Reader *part, const Reading *reading, const ReadEvents *events, Clock *clock, ReadFacts *facts) {
  Lanes lanes = {.clock = clock};
  AVStream *streams[MAX_AUDIO_TRACKS];
  int count = list_audio(part->format, streams);
  Failure failure = DECODED;
  for (int track = 0; track < count && failure == DECODED; track++) {
    if (reading->is_mixed[track]) failure = lane_open(&lanes, part, streams[track]);
  }
  if (failure == DECODED && lanes.count > 0) {
    Tracks *tracks = clock->tracks;
    if (tracks->rate_hz == 0) tracks->rate_hz = lanes.lanes[0]->reader.stream->codecpar->sample_rate;
    /* All frames come in order. */
    failure = clock_begin_part(clock, NAN);
    if (failure == DECODED) failure = read_lanes(&lanes, part, events, facts);
    if (failure == DECODED) failure = finish_lanes(&lanes);
  }
  for (int index = 0; index < lanes.count; index++) {
    facts->lost_s = fmax(facts->lost_s, lanes.lanes[index]->facts.lost_s);
    lane_close(lanes.lanes[index]);
  }
  return failure;
}
