#include <string.h>

#include <libavcodec/ac3_parser.h>

#include "decoder.h"
#include "reader.h"

/* Whether a part ends in the middle of a packet, in containers that do not say how long they are. */

/* Reports whether packets are found by how they begin, without a container. */
static bool has_sync_words(const Reader *reader) {
  static const char *const names[] = {"flac", "ac3", "eac3", "dts", "mp3", "aac", "loas", "mlp", "truehd", "tak", "wv"};
  const char *name = reader->format->iformat->name;
  for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
    if (!strcmp(name, names[index])) return true;
  }
  return false;
}

/* Returns the length that a packet of a codec with such a head says; 0 for other codecs. */
static int said_bytes(const Reader *reader, const AVPacket *packet) {
  uint8_t stream_kind;
  uint16_t bytes;
  switch (reader->stream->codecpar->codec_id) {
    case AV_CODEC_ID_MP1: case AV_CODEC_ID_MP2: case AV_CODEC_ID_MP3:
      return mpeg_frame_bytes(packet->data, packet->size);
    case AV_CODEC_ID_AC3: case AV_CODEC_ID_EAC3:
      return av_ac3_parse_header(packet->data, packet->size, &stream_kind, &bytes) < 0 ? 0 : bytes;
    default: return 0;
  }
}

static bool begins_alike(const Reader *reader, const uint8_t *bytes, int64_t count) {
  return count >= 2 && !memcmp(bytes, reader->ending.first_bytes, 2);
}

void ending_note(Reader *reader, const AVPacket *packet, const Reader *before) {
  Ending *ending = &reader->ending;
  if (reader->view.has_known_end) return;
  /* Behind the sound of a stream without container there may be a tag instead of a packet. */
  bool is_packet = !has_sync_words(reader) || begins_alike(reader, packet->data, packet->size);
  /* libav takes the first bytes of a frame of FLAC without a word. */
  bool has_failed = reader->failures > before->failures || reader->stream->codecpar->codec_id == AV_CODEC_ID_FLAC;
  bool is_lost = has_failed && reader->frames == before->frames;
  ending->is_short = said_bytes(reader, packet) > packet->size || (is_lost && is_packet);
  memcpy(ending->first_bytes, packet->data, packet->size < 2 ? packet->size : 2);
  ending->packet_end = packet->pos < 0 ? 0 : packet->pos + packet->size;
}

bool ends_in_packet(const Reader *reader, const Source *source) {
  const Ending *ending = &reader->ending;
  if (ending->met_end || ending->is_short) return true;
  if (!has_sync_words(reader) || ending->packet_end == 0) return false;
  /* A packet may begin behind the last one that libav has found. */
  uint8_t bytes[2];
  Part body = reader->view.body;
  return begins_alike(reader, bytes, source_read(source, body.start + ending->packet_end, body.end, bytes, sizeof bytes));
}
