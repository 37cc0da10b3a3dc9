/* One part of a recording that is being read; for the files that read packets. */
#pragma once
#include <libavcodec/avcodec.h>

#include "decoder.h"

/* What is known of the end of a part while its packets are read. */
typedef struct {
  /* The demuxer met the end of the file within a packet. */
  bool met_end;
  /* The last packet is shorter than it says, or could not be decoded. */
  bool is_short;
  /* The first bytes of the last packet, and the position behind it; 0 when it has none. */
  uint8_t first_bytes[2];
  int64_t packet_end;
} Ending;

typedef struct {
  View view;
  AVIOContext *io;
  AVFormatContext *format;
  AVStream *stream;
  /* The decoder: libav's, or our own for AMR. */
  AVCodecContext *codec;
  Amr *amr;
  /* The file has frames of AMR and nothing else. They are read here and not by libav, which knows some types only. */
  bool is_amr_file;
  AVPacket *packet;
  AVFrame *frame;
  bool has_clock;
  /* The first page of an Ogg stream has no time stamps that can be used; its position in bytes, -1 before it. */
  bool is_first_page_timeless;
  int64_t first_page;
  bool is_timeless;
  /* Frames that came out of the decoder, and packets that it could not decode. */
  int64_t frames, failures;
  Ending ending;
} Reader;

/* ---- reader.c ---- */

/* Opens a part and finds its streams. The caller closes the reader, also after a failure. */
Failure reader_open_file(Reader *reader, const Source *source, Part part, Reading *reading);
void reader_close(Reader *reader);
/* Opens the decoder of an audio stream. After a failure there is none. */
Failure decoder_open(Reader *reader, AVStream *stream);
void decoder_close(Reader *reader);
/* Returns the first time stamp of a part, NAN when it has none. */
double start_s(const Reader *reader);
/*
 * Each returns 0, AVERROR_EOF, AVERROR(EAGAIN) or another error of libav. Damaged packets that the demuxer refuses are left out
 * where others are behind them.
 */
int read_packet(Reader *reader);
int send_packet(Reader *reader, const AVPacket *packet);
int receive_frame(Reader *reader);
/* Decodes one packet, or with NULL the rest in the decoder. Damage is counted, and decoding continues. */
Failure decode_packet(Reader *reader, const AVPacket *packet, Clock *clock, ReadFacts *facts);

/* ---- ending.c ---- */

/* Looks at a packet. `before`: the reader before it was decoded. */
void ending_note(Reader *reader, const AVPacket *packet, const Reader *before);
/* Reports whether a part whose packets have been read ends in the middle of one. */
bool ends_in_packet(const Reader *reader, const Source *source);

/* ---- streams.c ---- */

/* Lists the audio streams of a part in their order in the file, and returns how many they are. */
int list_audio(const AVFormatContext *format, AVStream **streams);
/* Selects an audio stream and opens its decoder. Packets of other streams are not read. */
Failure choose_stream(Reader *reader, const Source *source, Reading *reading);

/* ---- lanes.c ---- */

bool has_lanes(const Reading *reading);
/* Reads the tracks of an open part that `reading` names side by side, each as a channel. */
Failure read_part_in_lanes(Reader *part, const Reading *reading, const ReadEvents *events, Clock *clock, ReadFacts *facts);
