#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavutil/channel_layout.h>
#include <libavutil/mathematics.h>
#include <libavutil/mem.h>
#include <libswresample/swresample.h>

#include "decoder.h"

/* The mix comes before the channels. */
#define MAX_PLANES (MAX_CHANNELS + 1)
#define BUFFERED_SAMPLES ((int)(sizeof((Track *)0)->buffer / sizeof(int16_t)))

/*
 * Everything that depends on the form of frames: rate, channels, their positions and the type of samples. A stream may
 * change it at any frame. Then the rest in the resampler is written, and the next form begins.
 */
typedef struct Form {
  int rate_hz, channels, sample_format;
  AVChannelLayout layout;
  float shares[MAX_CHANNELS];
  /* Converts any type of samples to planes of floats; NULL when samples are only counted. */
  SwrContext *to_planes;
  /* NULL for samples that have the rate of the output already. */
  SwrContext *resampler;
  /* Planes that are resampled. */
  int planes;
  /* Plane of the first channel: a single channel is its own mix. */
  int first;
  float *in[MAX_PLANES], *out[MAX_PLANES];
  int in_capacity, out_capacity;
} Form;

bool frame_is_absurd(const AVFrame *frame) {
  int channels = frame->ch_layout.nb_channels;
  return frame->nb_samples < 1 || channels < 1 || channels > MAX_CHANNELS || frame->sample_rate < MIN_RATE_HZ ||
         frame->sample_rate > MAX_RATE_HZ;
}

static bool keeps_sound(const Tracks *tracks) {
  const TrackOptions *options = &tracks->options;
  return options->prefix || options->outline || options->player || options->take;
}

void tracks_open(Tracks *tracks, TrackOptions options) {
  *tracks = (Tracks){.options = options, .is_stereo_throughout = true};
  measure_open(&tracks->levels);
}

/* ---- Files ---- */

static Failure write_failure(void) {
  switch (errno) {
    case ENOSPC: case EDQUOT: case EROFS: return NO_SPACE;
    case EFBIG: return TOO_LONG;
    default: return BROKEN_SYSTEM;
  }
}

static Failure track_flush(Track *track) {
  const char *from = (const char *)track->buffer;
  int64_t left = track->buffered * (int64_t)sizeof(int16_t), at = track->buffered_at * (int64_t)sizeof(int16_t);
  while (left > 0) {
    ssize_t written = pwrite(track->fd, from, left, at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return write_failure();
    from += written;
    at += written;
    left -= written;
  }
  track->buffered = 0;
  return DECODED;
}

static Failure track_open(Tracks *tracks, int index) {
  char path[4096], number[16] = "";
  if (tracks->options.separate) snprintf(number, sizeof number, "%d", index);
  int length = snprintf(path, sizeof path, "%s%s%s", tracks->options.prefix, number, tracks->options.suffix);
  if (length >= (int)sizeof path) return BROKEN_SYSTEM;
  Track *track = calloc(1, sizeof *track);
  if (!track) return NO_MEMORY;
  tracks->tracks[index] = track;
  tracks->track_count = index + 1;
  track->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  return track->fd < 0 ? write_failure() : DECODED;
}

/*
 * Rounds to the nearest whole number, half to even: the sum with this number has no bits for fractions, and its lowest
 * bits are those of the whole number.
 */
#define ROUNDING (1.5f * (1 << 23))

static inline int16_t rounded(float value) {
  float sum = value + ROUNDING;
  int32_t bits;
  memcpy(&bits, &sum, sizeof bits);
  return (int16_t)bits;
}

/* NaN becomes 0. */
static inline float limited(float value) {
  return value != value ? 0 : value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value;
}

/* An hour of sound took 30 ms less without the limits. */
static void to_16_bits(int16_t *to, const float *samples, int count, bool are_limited) {
  if (are_limited) {
    for (int index = 0; index < count; index++) to[index] = rounded(samples[index] * 32768.0f);
  } else {
    for (int index = 0; index < count; index++) to[index] = rounded(limited(samples[index] * 32768.0f));
  }
}

/* Reports whether all samples that were measured so far are numbers between those of 16 bits. */
static bool are_limited(const TrackLevels *levels) {
  return levels->peak * 32768.0f <= INT16_MAX && !isnan(levels->moment);
}

/* Writes measured samples at a position. Between them and earlier ones there is a hole in the file, which reads as zeros. */
static Failure track_write(Track *track, int64_t position, const float *samples, int count) {
  if (track->buffered > 0 && track->buffered_at + track->buffered != position) {
    Failure failure = track_flush(track);
    if (failure != DECODED) return failure;
  }
  for (int done = 0; done < count;) {
    if (track->buffered == 0) track->buffered_at = position + done;
    int part = count - done < BUFFERED_SAMPLES - track->buffered ? count - done : BUFFERED_SAMPLES - track->buffered;
    to_16_bits(track->buffer + track->buffered, samples + done, part, are_limited(&track->levels));
    track->buffered += part;
    done += part;
    if (track->buffered == BUFFERED_SAMPLES) {
      Failure failure = track_flush(track);
      if (failure != DECODED) return failure;
    }
  }
  return DECODED;
}

/* ---- Forms ---- */

static void form_free(Form **form) {
  Form *old = *form;
  if (!old) return;
  swr_free(&old->to_planes);
  swr_free(&old->resampler);
  av_channel_layout_uninit(&old->layout);
  for (int plane = 0; plane < MAX_PLANES; plane++) {
    av_freep(&old->in[plane]);
    av_freep(&old->out[plane]);
  }
  av_freep(form);
}

static bool has_form(const Form *form, const AVFrame *frame) {
  return form && form->rate_hz == frame->sample_rate && form->sample_format == frame->format &&
         form->channels == frame->ch_layout.nb_channels &&
         av_channel_layout_compare(&form->layout, &frame->ch_layout) == 0;
}

/*
 * Returns a channel's weight in the mix, from ITU-R BS.775-3 for fronts, centre and surrounds; the low-frequency channel
 * has none. The sum of all weights is 1, so the mix cannot clip.
 */
static float weight_of(enum AVChannel channel) {
  switch (channel) {
    case AV_CHAN_FRONT_CENTER: return 1;
    case AV_CHAN_LOW_FREQUENCY: case AV_CHAN_LOW_FREQUENCY_2: return 0;
    case AV_CHAN_BACK_LEFT: case AV_CHAN_BACK_RIGHT: case AV_CHAN_BACK_CENTER:
    case AV_CHAN_SIDE_LEFT: case AV_CHAN_SIDE_RIGHT: return 0.5f;
    default: return (float)M_SQRT1_2;
  }
}

static void choose_shares(Form *form) {
  float sum = 0;
  bool has_places = form->channels > 2 && form->layout.order == AV_CHANNEL_ORDER_NATIVE;
  for (int channel = 0; channel < form->channels; channel++) {
    form->shares[channel] =
        has_places ? weight_of(av_channel_layout_channel_from_index(&form->layout, channel)) : 1;
    sum += form->shares[channel];
  }
  for (int channel = 0; channel < form->channels; channel++) {
    form->shares[channel] = sum > 0 ? form->shares[channel] / sum : 1.0f / form->channels;
  }
}

/* Channels without positions, so that nothing is mixed. */
static SwrContext *open_swr(int channels, int in_format, int in_rate_hz, int out_rate_hz) {
  AVChannelLayout layout = {.order = AV_CHANNEL_ORDER_UNSPEC, .nb_channels = channels};
  SwrContext *swr = NULL;
  if (swr_alloc_set_opts2(&swr, &layout, AV_SAMPLE_FMT_FLTP, out_rate_hz, &layout, in_format, in_rate_hz, 0,
                          NULL) < 0 || swr_init(swr) < 0) {
    swr_free(&swr);
  }
  return swr;
}

static Failure form_open(Tracks *tracks, const AVFrame *frame) {
  Form *form = av_mallocz(sizeof *form);
  if (!form) return NO_MEMORY;
  tracks->form = form;
  form->rate_hz = frame->sample_rate;
  form->sample_format = frame->format;
  form->channels = frame->ch_layout.nb_channels;
  if (av_channel_layout_copy(&form->layout, &frame->ch_layout) < 0) return NO_MEMORY;
  if (!keeps_sound(tracks)) return DECODED;
  choose_shares(form);
  form->first = form->channels > 1 ? 1 : 0;
  form->planes = tracks->options.separate ? form->first + form->channels : 1;
  form->to_planes = open_swr(form->channels, frame->format, frame->sample_rate, frame->sample_rate);
  if (!form->to_planes) return NO_MEMORY;
  if (frame->sample_rate == OUTPUT_RATE_HZ) return DECODED;
  form->resampler = open_swr(form->planes, AV_SAMPLE_FMT_FLTP, frame->sample_rate, OUTPUT_RATE_HZ);
  return form->resampler ? DECODED : NO_MEMORY;
}

static bool reserve_planes(float **planes, int count, int *capacity, int samples) {
  if (*capacity >= samples) return true;
  *capacity = samples;
  for (int plane = 0; plane < count; plane++) {
    av_freep(&planes[plane]);
    planes[plane] = av_malloc_array(samples, sizeof(float));
    if (!planes[plane]) {
      *capacity = 0;
      return false;
    }
  }
  return true;
}

/* ---- Appending ---- */

/* Gives a track's samples to the outline and the file. `is_mix`: they are the mix too, which is measured with them. */
static Failure append(Tracks *tracks, int index, bool is_mix, const float *samples, int count) {
  const TrackOptions *options = &tracks->options;
  Failure failure = DECODED;
  if (options->outline) failure = outline_take(options->outline, index, tracks->position, samples, count);
  if (!options->prefix) return failure;
  while (failure == DECODED && tracks->track_count <= index) failure = track_open(tracks, tracks->track_count);
  if (failure != DECODED) return failure;
  Track *track = tracks->tracks[index];
  if (is_mix) measure_mix(&tracks->levels, &track->levels, samples, count);
  else measure_track(&track->levels, samples, count);
  return track_write(track, tracks->position, samples, count);
}

/* Takes samples of the output: the mix, and with `separate` the channels. */
static Failure hand_out(Tracks *tracks, const float *const *planes, int count) {
  const TrackOptions *options = &tracks->options;
  if (options->take) return options->take(options->context, tracks->position, planes[0], count);
  int first = options->separate ? tracks->form->first : 0, wanted = options->separate ? tracks->form->channels : 1;
  if (options->player) return player_take(options->player, tracks->position, planes + first, wanted, count);
  if (options->prefix && first > 0) measure_mix(&tracks->levels, NULL, planes[0], count);
  Failure failure = DECODED;
  for (int index = 0; index < wanted && failure == DECODED; index++) {
    failure = append(tracks, index, first + index == 0, planes[first + index], count);
  }
  return failure;
}

/* Gives a frame to the resampler, or with 0 samples takes the rest in it, and writes the output. */
static Failure resample(Tracks *tracks, int samples) {
  Form *form = tracks->form;
  float **planes = form->in;
  if (form->resampler) {
    int most = swr_get_out_samples(form->resampler, samples);
    if (most < 0 || !reserve_planes(form->out, form->planes, &form->out_capacity, most + 64)) return NO_MEMORY;
    planes = form->out;
    samples = swr_convert(form->resampler, (uint8_t **)form->out, form->out_capacity,
                          samples > 0 ? (const uint8_t **)form->in : NULL, samples);
    if (samples < 0) return NO_MEMORY;
  }
  Failure failure = samples > 0 ? hand_out(tracks, (const float *const *)planes, samples) : DECODED;
  tracks->position += samples;
  return failure;
}

/* Ends the output of the resampler exactly where the sound ends on the clock. */
static Failure end_stretch(Tracks *tracks) {
  Failure failure = DECODED;
  if (tracks->form && keeps_sound(tracks)) failure = resample(tracks, 0);
  form_free(&tracks->form);
  tracks->position = llrint(tracks->end_s * OUTPUT_RATE_HZ);
  return failure;
}

static void mix_planes(Form *form, int samples) {
  float *const *channels = form->in + 1;
  for (int index = 0; index < samples; index++) form->in[0][index] = form->shares[0] * channels[0][index];
  for (int channel = 1; channel < form->channels; channel++) {
    float share = form->shares[channel];
    for (int index = 0; index < samples; index++) form->in[0][index] += share * channels[channel][index];
  }
}

/*
 * The resampler's output has a fixed grid of samples. Behind a point it begins where both grids meet, so that its samples
 * are those of an output that began earlier. Returns how many samples of the frame come before that.
 */
static int before_grid(Tracks *tracks, const AVFrame *frame) {
  if (!tracks->is_resumed) return 0;
  int64_t period = frame->sample_rate / av_gcd(frame->sample_rate, OUTPUT_RATE_HZ);
  int64_t before = (period - tracks->stretch_samples % period) % period;
  if (before >= frame->nb_samples) return frame->nb_samples;
  tracks->position = tracks->stretch_position +
                     av_rescale(tracks->stretch_samples + before, OUTPUT_RATE_HZ, frame->sample_rate);
  tracks->is_resumed = false;
  return before;
}

static Failure keep(Tracks *tracks, const AVFrame *frame) {
  Form *form = tracks->form;
  int samples = frame->nb_samples, before = before_grid(tracks, frame);
  tracks->stretch_samples += samples;
  if (before == samples) return DECODED;
  if (!reserve_planes(form->in, form->first + form->channels, &form->in_capacity, samples)) return NO_MEMORY;
  float *const *channels = form->in + form->first;
  int got = swr_convert(form->to_planes, (uint8_t **)channels, samples, (const uint8_t **)frame->extended_data, samples);
  if (got != samples) return NO_MEMORY;
  samples -= before;
  for (int channel = 0; channel < form->channels && before > 0; channel++) {
    memmove(channels[channel], channels[channel] + before, samples * sizeof(float));
  }
  if (tracks->options.prefix) {
    for (int channel = 0; channel < form->channels; channel++) {
      measure_source(&tracks->levels, channels[channel], samples);
    }
    if (form->channels == 2) measure_sides(&tracks->levels, channels[0], channels[1], samples);
  }
  if (form->first > 0) mix_planes(form, samples);
  return resample(tracks, samples);
}

Failure tracks_take(Tracks *tracks, const AVFrame *frame) {
  Failure failure = DECODED;
  int channels = frame->ch_layout.nb_channels;
  if (!has_form(tracks->form, frame)) {
    if (!tracks->is_resumed) {
      failure = end_stretch(tracks);
      tracks->stretch_position = tracks->position;
      tracks->stretch_samples = 0;
    }
    if (failure == DECODED) failure = form_open(tracks, frame);
  }
  if (failure == DECODED && keeps_sound(tracks)) failure = keep(tracks, frame);
  if (channels > tracks->channels) tracks->channels = channels;
  if (channels != 2) tracks->is_stereo_throughout = false;
  if (tracks->rate_hz == 0) tracks->rate_hz = frame->sample_rate;
  tracks->end_s += (double)frame->nb_samples / frame->sample_rate;
  return failure == DECODED && tracks->end_s > tracks->options.max_s ? TOO_LONG : failure;
}

Failure tracks_skip(Tracks *tracks, double seconds) {
  Failure failure = end_stretch(tracks);
  /* Behind a gap, the resampler begins from nothing in any case. */
  tracks->is_resumed = false;
  tracks->end_s += seconds;
  tracks->position = llrint(tracks->end_s * OUTPUT_RATE_HZ);
  measure_silence(&tracks->levels, llrint(seconds * OUTPUT_RATE_HZ));
  return failure == DECODED && tracks->end_s > tracks->options.max_s ? TOO_LONG : failure;
}

/* Makes the tracks and lanes that have no sound yet: the resampler gives nothing for some milliseconds. */
static Failure open_silent(Tracks *tracks) {
  const TrackOptions *options = &tracks->options;
  int wanted = options->separate ? tracks->channels : 1;
  Failure failure = DECODED;
  while (options->prefix && tracks->track_count < wanted && failure == DECODED) {
    failure = track_open(tracks, tracks->track_count);
  }
  for (int lane = 0; options->outline && lane < wanted && failure == DECODED; lane++) {
    failure = outline_take(options->outline, lane, 0, NULL, 0);
  }
  return failure;
}

Failure tracks_finish(Tracks *tracks) {
  Failure failure = end_stretch(tracks);
  if (failure == DECODED && tracks->position > 0) failure = open_silent(tracks);
  for (int index = 0; index < tracks->track_count && failure == DECODED; index++) {
    Track *track = tracks->tracks[index];
    failure = track_flush(track);
    if (failure == DECODED && ftruncate(track->fd, tracks->position * (int64_t)sizeof(int16_t)) != 0) {
      failure = write_failure();
    }
  }
  return failure;
}

void tracks_resume(Tracks *tracks, const Point *point) {
  tracks->end_s = point->at_s;
  tracks->stretch_position = point->stretch_position;
  tracks->stretch_samples = point->stretch_samples;
  tracks->is_resumed = true;
}

void tracks_close(Tracks *tracks) {
  form_free(&tracks->form);
  for (int index = 0; index < tracks->track_count; index++) {
    if (tracks->tracks[index]->fd >= 0) close(tracks->tracks[index]->fd);
    free(tracks->tracks[index]);
  }
  tracks->track_count = 0;
}
