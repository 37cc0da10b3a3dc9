#include <stdlib.h>
#include <string.h>

#include <libavutil/intreadwrite.h>

#include "decoder.h"

/*
 * Frames of AMR have 20 ms: 160 samples at 8 kHz, or 320 at 16 kHz (wide-band). In a file, each begins with a byte that
 * names its type (RFC 4867 section 5.3); with several channels, the frames of one time follow each other.
 *
 * Phones do not transmit the pauses of a call: a pause is some descriptors of its noise (SID) and many frames of no data
 * (3GPP TS 26.093 and 26.193). libav refuses these frames and those that were lost on the way, so a pause would have no
 * length. Here each frame has its length, and one without speech is silent.
 */

#define FRAMES_PER_S 50
#define MAX_FRAME_BYTES 64
#define GOOD_QUALITY 4
/* RFC 3551 section 4.1 names the channels of up to six. */
#define MAX_FILE_CHANNELS 6

/*
 * Bytes of a frame of each type with its first byte: 3GPP TS 26.101 table 1a (narrow-band: 8 to 11 are descriptors of
 * noise by four systems, 15 means that there are no data), and 26.201 table 1a (wide-band: 9 is the descriptor, 14 means
 * that speech was lost, 15 that there are no data).
 */
static const uint8_t NARROW_BYTES[16] = {13, 14, 16, 18, 20, 21, 27, 32, 6, 7, 6, 6, 1, 1, 1, 1};
static const uint8_t WIDE_BYTES[16] = {18, 24, 33, 37, 41, 47, 51, 59, 61, 6, 1, 1, 1, 1, 1, 1};

struct Amr {
  enum AVCodecID codec;
  int channels, rate_hz;
  const uint8_t *bytes_of;
  AVRational time_base;
  /* One decoder for each channel, because one channel may pause while another one speaks. */
  AVCodecContext *decoders[MAX_CHANNELS];
  /* What was sent last, and the first byte of it that was not received yet. */
  AVPacket *packet;
  int at;
  int64_t time;
  bool is_ended;
  /* Samples that the container leaves out: before the next one, and at the end of the packet. */
  int64_t skipped, cut;
  /* A frame of one channel, and its sound. */
  AVPacket *part;
  AVFrame *sound;
};

bool is_amr(enum AVCodecID codec) { return codec == AV_CODEC_ID_AMR_NB || codec == AV_CODEC_ID_AMR_WB; }

static bool open_decoder(Amr *amr, int channel) {
  AVCodecContext **decoder = &amr->decoders[channel];
  const AVCodec *codec = avcodec_find_decoder(amr->codec);
  if (!codec || !(*decoder = avcodec_alloc_context3(codec))) return false;
  (*decoder)->sample_rate = amr->rate_hz;
  (*decoder)->ch_layout = (AVChannelLayout)AV_CHANNEL_LAYOUT_MONO;
  (*decoder)->thread_count = 1;
  return avcodec_open2(*decoder, codec, NULL) >= 0;
}

Amr *amr_open(const AVCodecParameters *parameters, AVRational time_base) {
  Amr *amr = calloc(1, sizeof *amr);
  if (!amr) return NULL;
  bool is_wide = parameters->codec_id == AV_CODEC_ID_AMR_WB;
  amr->codec = parameters->codec_id;
  amr->channels = parameters->ch_layout.nb_channels;
  amr->rate_hz = is_wide ? 16000 : 8000;
  amr->bytes_of = is_wide ? WIDE_BYTES : NARROW_BYTES;
  amr->time_base = time_base;
  amr->packet = av_packet_alloc();
  amr->part = av_packet_alloc();
  amr->sound = av_frame_alloc();
  bool is_open = amr->packet && amr->part && amr->sound;
  for (int channel = 0; is_open && channel < amr->channels; channel++) is_open = open_decoder(amr, channel);
  if (!is_open) amr_close(&amr);
  return amr;
}

void amr_close(Amr **amr) {
  if (!*amr) return;
  for (int channel = 0; channel < MAX_CHANNELS; channel++) avcodec_free_context(&(*amr)->decoders[channel]);
  av_packet_free(&(*amr)->packet);
  av_packet_free(&(*amr)->part);
  av_frame_free(&(*amr)->sound);
  free(*amr);
  *amr = NULL;
}

int amr_send(Amr *amr, const AVPacket *packet) {
  av_packet_unref(amr->packet);
  amr->at = 0;
  amr->is_ended = !packet;
  if (!packet) return 0;
  amr->time = packet->pts;
  amr->cut = 0;
  size_t bytes = 0;
  const uint8_t *skips = av_packet_get_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, &bytes);
  if (skips && bytes >= 8) {
    amr->skipped = AV_RL32(skips);
    amr->cut = AV_RL32(skips + 4);
  }
  return av_packet_ref(amr->packet, packet);
}

/* All other types are pauses, lost on the way, or not yet defined. */
static bool is_speech(const Amr *amr, int type) { return type < (amr->codec == AV_CODEC_ID_AMR_WB ? 9 : 8); }

/*
 * Decodes a frame of speech. False: the decoder refused it. Behind a pause the decoder continues with its old state:
 * measured against a decoder that makes the noise of pauses, the first frames of speech came nearer to it than those of a
 * new decoder.
 */
static bool decode_speech(Amr *amr, int channel, int bytes, float *samples) {
  bool is_decoded = false;
  uint8_t frame[MAX_FRAME_BYTES + AV_INPUT_BUFFER_PADDING_SIZE] = {0};
  memcpy(frame, amr->packet->data + amr->at, bytes);
  /* Of frames that are marked as damaged, libav's wide-band decoder makes silence. Players do not look at the mark. */
  frame[0] |= GOOD_QUALITY;
  amr->part->data = frame;
  amr->part->size = bytes;
  if (avcodec_send_packet(amr->decoders[channel], amr->part) < 0) return false;
  while (avcodec_receive_frame(amr->decoders[channel], amr->sound) >= 0) {
    is_decoded = amr->sound->nb_samples == amr->rate_hz / FRAMES_PER_S;
    if (is_decoded) memcpy(samples, amr->sound->extended_data[0], amr->sound->nb_samples * sizeof(float));
    av_frame_unref(amr->sound);
  }
  return is_decoded;
}

/* Decodes the next frame of a channel; the samples are silent before. Returns whether all of it was there. */
static bool decode_frame(Amr *amr, int channel, float *samples) {
  int left = amr->packet->size - amr->at;
  if (left <= 0) return false;
  int type = amr->packet->data[amr->at] >> 3 & 15, bytes = amr->bytes_of[type];
  bool is_right = left >= bytes;
  if (is_right && is_speech(amr, type)) is_right = decode_speech(amr, channel, bytes, samples);
  amr->at += left < bytes ? left : bytes;
  return is_right;
}

static int decode_block(Amr *amr, AVFrame *frame) {
  frame->format = AV_SAMPLE_FMT_FLTP;
  frame->sample_rate = amr->rate_hz;
  frame->nb_samples = amr->rate_hz / FRAMES_PER_S;
  av_channel_layout_default(&frame->ch_layout, amr->channels);
  int status = av_frame_get_buffer(frame, 0);
  if (status < 0) return status;
  for (int channel = 0; channel < amr->channels; channel++) {
    float *samples = (float *)frame->extended_data[channel];
    memset(samples, 0, frame->nb_samples * sizeof(float));
    if (!decode_frame(amr, channel, samples)) frame->flags |= AV_FRAME_FLAG_CORRUPT;
  }
  frame->pts = frame->best_effort_timestamp = amr->time;
  if (amr->time != AV_NOPTS_VALUE) amr->time += av_rescale_q(1, (AVRational){1, FRAMES_PER_S}, amr->time_base);
  return 0;
}

/* Leaves out what the container leaves out. */
static void trim(Amr *amr, AVFrame *frame) {
  int samples = frame->nb_samples, front = amr->skipped < samples ? (int)amr->skipped : samples;
  bool is_last = amr->at >= amr->packet->size;
  int back = !is_last ? 0 : amr->cut < samples - front ? (int)amr->cut : samples - front;
  amr->skipped -= front;
  frame->nb_samples = amr->packet->flags & AV_PKT_FLAG_DISCARD ? 0 : samples - front - back;
  if (front == 0) return;
  for (int channel = 0; channel < amr->channels; channel++) {
    float *plane = (float *)frame->extended_data[channel];
    memmove(plane, plane + front, (samples - front) * sizeof(float));
  }
  if (frame->pts == AV_NOPTS_VALUE) return;
  frame->pts += av_rescale_q(front, (AVRational){1, amr->rate_hz}, amr->time_base);
  frame->best_effort_timestamp = frame->pts;
}

int amr_receive(Amr *amr, AVFrame *frame) {
  while (amr->at < amr->packet->size) {
    int status = decode_block(amr, frame);
    if (status < 0) return status;
    trim(amr, frame);
    if (frame->nb_samples > 0) return 0;
    av_frame_unref(frame);
  }
  return amr->is_ended ? AVERROR_EOF : AVERROR(EAGAIN);
}

/* ---- Files of frames only ---- */

int64_t amr_file_head(AVIOContext *io, int *channels) {
  static const char *const names[] = {"#!AMR\n", "#!AMR-WB\n", "#!AMR_MC1.0\n", "#!AMR-WB_MC1.0\n"};
  uint8_t head[20] = {0};
  if (avio_seek(io, 0, SEEK_SET) < 0 || avio_read(io, head, sizeof head) < 0) return -1;
  *channels = 1;
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    size_t bytes = strlen(names[index]);
    if (memcmp(head, names[index], bytes)) continue;
    if (!strstr(names[index], "_MC")) return bytes;
    *channels = AV_RB32(head + bytes) & 15;
    return *channels <= MAX_FILE_CHANNELS ? (int64_t)bytes + 4 : -1;
  }
  return 0;
}

int amr_read(const Amr *amr, AVIOContext *io, AVPacket *packet) {
  uint8_t bytes[MAX_FILE_CHANNELS * MAX_FRAME_BYTES];
  int64_t position = avio_tell(io);
  int filled = 0;
  for (int channel = 0; channel < amr->channels && channel < MAX_FILE_CHANNELS; channel++) {
    int got = avio_read(io, bytes + filled, 1);
    if (got <= 0) break;
    int wanted = amr->bytes_of[bytes[filled++] >> 3 & 15] - 1;
    got = wanted > 0 ? avio_read(io, bytes + filled, wanted) : 0;
    if (got > 0) filled += got;
    if (got < wanted) break;
  }
  if (filled == 0) return io->error < 0 ? io->error : AVERROR_EOF;
  int status = av_new_packet(packet, filled);
  if (status < 0) return status;
  memcpy(packet->data, bytes, filled);
  packet->pos = position;
  packet->duration = amr->rate_hz / FRAMES_PER_S;
  return 0;
}
