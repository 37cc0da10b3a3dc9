/*
 * Shruti's decoder: reads one recording with FFmpeg's libraries, measures it, and writes it as 16 kHz PCM.
 *
 * main.c     arguments, limits of the process, the report
 * source.c   the file, and the independent parts that a concatenated file has
 * edits.c    edit lists of MP4
 * qcp.c      lost frames of QCELP and EVRC
 * view.c     what libav reads of a part, which the next three make
 * samples.c  uncompressed files: WAV and its relatives, AIFF, AU, CAF
 * chunks.c   their chunks, and what is behind their sound
 * ogg.c      pages of Ogg
 * ends.c     whether a part of another kind breaks off, by its lengths
 * reading.c  how the caller wants the file to be read
 * reader.c   one part: demuxer and audio decoder of libav
 * ending.c   whether a part ends in the middle of a packet
 * amr.c      AMR with its pauses
 * streams.c  which audio track of a file is read
 * lanes.c    several audio tracks side by side
 * clock.c    where decoded frames belong on the recording's clock
 * tracks.c   mixing, resampling and writing
 * measure.c  levels
 * outline.c  peaks for a waveform, and points from which the recording can be decoded later
 * play.c     a stretch of the recording, for a listener
 * amplify.c  the second command: a decoded file made louder
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>

#define OUTPUT_RATE_HZ 16000
#define MAX_CHANNELS 32
#define MIN_RATE_HZ 4000
#define MAX_RATE_HZ 768000
/* Decoding stops this long after the limit, when the recording surely exceeds it. */
#define OVERRUN_S 1.0
#define SILENCE_DB -120.0

/* Why a recording cannot be decoded; the names are in main.c and in decode-failure.ts. */
typedef enum {
  DECODED,
  NO_AUDIO,
  UNDECODABLE,
  ABSURD_FORMAT,
  TOO_LONG,
  NO_SPACE,
  NO_MEMORY,
  BROKEN_SYSTEM,
} Failure;

/* ---- source.c ---- */

typedef struct {
  int64_t start, end;
} Part;

/* Bytes that are read in the place of those of the file. */
typedef struct {
  int64_t at;
  uint8_t bytes[8];
  int length;
} Patch;

/* The edit list of a track of an MP4 file: its position, and the seconds from its first to its last stretch of media. */
typedef struct {
  int64_t list;
  uint32_t track;
  double seconds;
} TrackPlay;

/* A file, and its parts: recordings that were joined byte by byte, such as chained Ogg streams. */
typedef struct {
  int fd;
  int64_t bytes;
  Part *parts;
  int part_count;
  /* In order of their positions. */
  Patch *patches;
  int patch_count, patch_capacity;
  TrackPlay *plays;
  int play_count;
} Source;

/* Opens a regular file. */
Failure source_open(Source *source, const char *path);
/* Takes one part for the first, and finds those after it. */
Failure source_begin_at(Source *source, Part first);
/* Finds the parts; at least one. */
Failure source_find_parts(Source *source);
void source_close(Source *source);
/* Replaces bytes behind those that were replaced before. False when memory is short. */
bool source_replace(Source *source, Patch patch);
/* Keeps what an edit list of several edits plays. False when memory is short. */
bool source_note_play(Source *source, TrackPlay play);
/* Returns the seconds that a track's edit list plays in a part; NAN when it has no list of several edits. */
double source_played_s(const Source *source, Part part, int track);
/* Reads bytes of the file before `end`. Returns how many there were. */
int64_t source_read(const Source *source, int64_t at, int64_t end, void *buffer, int64_t bytes);
/* Returns the first position in a range where the signature is; -1 when it is nowhere. */
int64_t source_find(const Source *source, Part range, const char *signature, int length);

/* ---- edits.c ---- */

/* Makes libav read silence where the edit lists of an MP4 or QuickTime file say so. False when memory is short. */
bool edits_mend(Source *source);

/* ---- view.c ---- */

/*
 * What libav reads of a part: bytes of the file, without those behind the sound, between bytes that this program has made.
 * Positions of packets count from the beginning of the view.
 */
typedef struct {
  /* A made header, or NULL. It is that of a WAV file of unknown length. */
  uint8_t *head;
  int64_t head_bytes;
  Part body;
  /* A made page of Ogg, or NULL. */
  uint8_t *tail;
  int64_t tail_bytes;
  /* The codec of the sound; AV_CODEC_ID_NONE: the one that libav finds. */
  enum AVCodecID codec;
  /* Bytes of a sample of all channels behind a made header; 0: the sound is compressed, or there is no such header. */
  int64_t sample_bytes;
  /* The container says where the sound ends, so that its last packet may be short. */
  bool has_known_end;
  /* The file ends before its sound does. */
  bool breaks_off;
} View;

/* Makes the view of a part. Free it with `view_free`. */
View view_of(const Source *source, Part part);
int64_t view_bytes(const View *view);
void view_free(View *view);
/* Makes a context that reads a view, which must outlive it; NULL when memory is short. Free it with `source_free_io`. */
AVIOContext *source_io(const Source *source, const View *view);
void source_free_io(AVIOContext *io);

/* ---- samples.c ---- */

/* Finds the sound of an uncompressed file. Leaves the view of any other file as it is. */
void view_of_samples(const Source *source, Part part, View *view);

/* ---- chunks.c ---- */

/* Chunks with a name and a length: little-endian, big-endian, with 64 bits in CAF, and with long names in Wave64. */
typedef enum { RIFF_CHUNKS, FORM_CHUNKS, CAF_CHUNKS, WAVE64_CHUNKS } ChunkForm;

/* No file has chunks of more bytes. Sums of two such numbers cannot overflow. */
#define LARGEST_CHUNK ((int64_t)1 << 60)

typedef struct {
  char name[4];
  /* Position and length of the content, and where the next chunk begins. The length is as the file says, or negative. */
  int64_t at, bytes, next;
} Chunk;

/* Bytes of a sample (0: the sound is compressed), and which of them is the highest one. */
typedef struct {
  int bytes, highest;
} SampleForm;

/* Reads the head of a chunk. False: there is none. */
bool chunk_read(const Source *source, Part part, ChunkForm form, int64_t at, Chunk *chunk);
/* Reports whether whole chunks fill the part from a position on. */
bool chunks_fill(const Source *source, Part part, ChunkForm form, int64_t at);
/* Reports whether other data than sound begin with these bytes: tags of programs that do not know the container. */
bool is_tag(const uint8_t *bytes, int64_t available);
/*
 * Reports whether the sound continues behind the `end` that its header names, as in a recorder that lost power and had
 * written the length before. It does not where chunks, tags, text, zeros, or data as even as encrypted ones follow.
 */
bool sound_continues(const Source *source, Part part, ChunkForm form, SampleForm samples, int64_t data_at, int64_t end);

/* ---- ogg.c ---- */

#define OGG_HEAD_BYTES 27
#define OGG_PAGE_BYTES (OGG_HEAD_BYTES + 255 + 255 * 255)
#define OGG_BEGINS_STREAM 2
#define OGG_ENDS_STREAM 4

/* Reads the head of the page at an offset (RFC 3533 section 6). Returns the page's length; 0 when there is none. */
int64_t ogg_page_bytes(const Source *source, int64_t at, int64_t end, uint8_t *page);
/* Reads a page of this length. A damaged flag must not cut a stream, so the checksum says whether the page is sound. */
bool ogg_page_is_sound(const Source *source, int64_t at, int64_t end, int64_t bytes, uint8_t *page);
/* Finds the end of Ogg, and makes a page of the whole packets of a page that breaks off. */
void view_of_ogg(const Source *source, Part part, View *view);

/* ---- ends.c ---- */

/* Reports whether a part breaks off, by the lengths that its container names. False where it names none. */
bool breaks_off(const Source *source, Part part);
/* Returns the length of a frame of MPEG audio, by its head; 0: there is none, or it does not say. */
int mpeg_frame_bytes(const uint8_t *head, int available);

/* ---- reading.c ---- */

/* Audio tracks of a file that are looked at. */
#define MAX_AUDIO_TRACKS 32
#define TRACK_UNKNOWN -1

/* How a file is read beyond what it says itself; src/domain/reading.ts has the same. */
typedef struct {
  /* The format of a file that has no signature. NULL: it is not known. */
  const AVInputFormat *raw;
  int raw_rate_hz, raw_channels, raw_code_bits;
  /* The file has no signature and was read in the format `raw`. */
  bool is_raw;
  /* The audio track that is read, from 0 among the audio tracks of each part. It is found when it is needed. */
  int track;
  /* Other audio tracks that have sound; only where `track` was not given. */
  bool is_left_out[MAX_AUDIO_TRACKS];
  /* All audio tracks that have sound are read, and `is_mixed` is found when it is needed. */
  bool wants_all;
  /* The audio tracks that are read side by side; none where `track` is read. */
  bool is_mixed[MAX_AUDIO_TRACKS];
} Reading;

/* Reads the arguments FORMAT and TRACKS, which main.c describes. */
bool reading_parse(Reading *reading, const char *format, const char *tracks);
/* Returns the format in which the file must be read, with its settings; NULL: libav finds it. */
const AVInputFormat *reading_input(Reading *reading, AVIOContext *io, AVDictionary **settings);

/* ---- qcp.c ---- */

/* Makes libav read lost frames of a file of QCELP or EVRC as blank ones. False when memory is short. */
bool qcp_mend(Source *source);

/* ---- clock.c ---- */

typedef struct Tracks Tracks;

/*
 * Finds where decoded frames belong. Time stamps are rounded, jitter, jump and run backwards. So samples are counted
 * instead, and a jump of the time stamps counts only if the following frames confirm it.
 */
typedef struct {
  Tracks *tracks;
  /* End of the sound that was written, in seconds on the recording's clock. */
  double at_s;
  /* Added to a frame's time stamp to get its time on the recording's clock; NAN before the first time stamp is known. */
  double base_s;
  bool is_started;
  /* Frames that disagree with the clock, held until it is known whether the time stamps have jumped. */
  AVFrame **held;
  double *held_jump_s;
  int held_count;
  double held_s;
  int64_t held_bytes;
} Clock;

Failure clock_open(Clock *clock, Tracks *tracks);
void clock_close(Clock *clock);
/*
 * The next part begins where the last one ended. `start_s` is its first time stamp: NAN to take that of the first frame
 * that has one, and to lay the sound before it without a gap.
 */
Failure clock_begin_part(Clock *clock, double start_s);
/* Takes a frame and frees it later. `time_s` is its time stamp, NAN when it has none. */
Failure clock_take(Clock *clock, AVFrame *frame, double time_s);
/* Decides about all held frames. */
Failure clock_settle(Clock *clock);
/* Continues at a point. */
void clock_resume(Clock *clock, double at_s, double base_s);

/* ---- measure.c ---- */

typedef struct {
  double power;
  int64_t samples;
} Power;

#define HIGH_PASS_STAGES 4

/* Stages of second order, one behind the other, which differ only in their state. */
typedef struct {
  float b0, b1, b2, a1, a2;
  float z1[HIGH_PASS_STAGES], z2[HIGH_PASS_STAGES];
} HighPass;

typedef struct {
  /* Of the recording's own samples, all channels. */
  float peak;
  int64_t samples, full_scale;
  Power mix, sides, high;
  HighPass high_pass;
} Levels;

typedef struct {
  float peak;
  /* Power of a moment (an average that forgets with a time constant of 50 ms), and the highest one. */
  double moment, loudest;
} TrackLevels;

/* Returns the largest size of a sample; 0 when there is none. */
float largest_of(const float *samples, int count);
void measure_open(Levels *levels);
void measure_source(Levels *levels, const float *samples, int count);
void measure_sides(Levels *levels, const float *left, const float *right, int count);
/* Measures the mix, and with `track` also the track that has the same samples. */
void measure_mix(Levels *levels, TrackLevels *track, const float *samples, int count);
void measure_silence(Levels *levels, int64_t count);
void measure_track(TrackLevels *levels, const float *samples, int count);
/* Returns a level in dB relative to full scale, at least SILENCE_DB. */
double power_db(Power power);
double amplitude_db(double amplitude);

/* ---- outline.c ---- */

/*
 * A packet, and where the sound after it belongs. The outline file has these bytes as they are, so that the members have
 * eight bytes each.
 */
typedef struct {
  /*
   * The part, and the packet in it: position in bytes, and time stamp (AV_NOPTS_VALUE where it has none). A point without
   * position and time stamp is the beginning of the part.
   */
  int64_t part_start, part_end, position, time;
  /* The clock after the packet. */
  double at_s, base_s;
  /* Where the resampler began, in samples of the output, and the samples that it has received since. */
  int64_t stretch_position, stretch_samples;
} Point;

typedef struct {
  /* The largest sample of each stretch of `peak_samples`, 0 to 255, in each lane. */
  uint8_t *peaks[MAX_CHANNELS];
  int lanes, peak_count, peak_samples;
  Point *points;
  int point_count;
  double point_s, next_point_s;
} Outline;

Failure outline_open(Outline *outline);
void outline_close(Outline *outline);
/* Takes samples of the output at their position. */
Failure outline_take(Outline *outline, int lane, int64_t position, const float *samples, int count);
void outline_note(Outline *outline, Point point);
/* Writes the file: a line of JSON, then the peaks of each lane, then the points. */
Failure outline_write(Outline *outline, const char *path, int64_t samples);

/* ---- play.c ---- */

#define PLAYER_BUFFER 32768

/* Writes `count` samples from `from` on to standard output, all lanes of a sample together. */
typedef struct {
  int lanes;
  int64_t from, count, written;
  int buffered;
  int16_t buffer[PLAYER_BUFFER];
} Player;

Failure player_take(Player *player, int64_t position, const float *const *planes, int channels, int count);
Failure player_finish(Player *player);

/* ---- tracks.c ---- */

/* Receives samples of the output at their position. */
typedef Failure TakeSound(void *context, int64_t position, const float *samples, int count);

typedef struct {
  /* NULL: no file is written. */
  const char *prefix, *suffix;
  /* NULL: there are none. Without file, outline and player samples are only counted. */
  Outline *outline;
  Player *player;
  /* With a function, the mix goes there, and nowhere else. */
  TakeSound *take;
  void *context;
  bool separate;
  /* Seconds of recording after which decoding stops. */
  double max_s;
} TrackOptions;

typedef struct {
  int fd;
  TrackLevels levels;
  int64_t buffered_at;
  int buffered;
  int16_t buffer[32768];
} Track;

struct Tracks {
  TrackOptions options;
  Track *tracks[MAX_CHANNELS];
  int track_count;
  Levels levels;
  /* Channels of the recording: the highest number of any frame. */
  int channels, rate_hz;
  bool is_stereo_throughout;
  /* Samples of each track so far. */
  int64_t position;
  /* Length of the sound that the tracks have received, in seconds on the recording's clock. */
  double end_s;
  /* Where the resampler began, and the samples of the recording that it has received since. */
  int64_t stretch_position, stretch_samples;
  /* Decoding began at a point, and no frame has come yet. */
  bool is_resumed;
  /* State for frames of one form; see tracks.c. */
  struct Form *form;
};

void tracks_open(Tracks *tracks, TrackOptions options);
/* Appends a frame to the tracks. */
Failure tracks_take(Tracks *tracks, const AVFrame *frame);
/* Appends silence, which takes no space on the disk. */
Failure tracks_skip(Tracks *tracks, double seconds);
/* Ends all files at the same length. */
Failure tracks_finish(Tracks *tracks);
void tracks_close(Tracks *tracks);
/* Continues at a point, so that the next samples are those that decoding from the beginning would give. */
void tracks_resume(Tracks *tracks, const Point *point);
bool frame_is_absurd(const AVFrame *frame);

/* ---- amr.c ---- */

typedef struct Amr Amr;

bool is_amr(enum AVCodecID codec);
/* Returns a decoder of AMR for packets of whole frames; NULL when memory is short. */
Amr *amr_open(const AVCodecParameters *parameters, AVRational time_base);
void amr_close(Amr **amr);
/* Takes a packet, or NULL at the end. 0, or an error of libav. */
int amr_send(Amr *amr, const AVPacket *packet);
/*
 * Gives the next 20 ms of the packet. A frame with AV_FRAME_FLAG_CORRUPT is one that could not be decoded, and is silent.
 * 0, AVERROR(EAGAIN) behind the packet, AVERROR_EOF behind the last one, or another error of libav.
 */
int amr_receive(Amr *amr, AVFrame *frame);
/*
 * Reads the head of a file that has frames of AMR and nothing else. Returns its length in bytes, 0 when there is none, and
 * -1 when nothing can be read behind it. `channels` may be absurd.
 */
int64_t amr_file_head(AVIOContext *io, int *channels);
/* Reads the frames of the next 20 ms of such a file, fewer at its end. 0, AVERROR_EOF, or another error of libav. */
int amr_read(const Amr *amr, AVIOContext *io, AVPacket *packet);

/* ---- reader.c ---- */

typedef struct {
  /* Duration that the headers claim, in seconds; NAN when they claim none, or only estimate it. Claims refuse nothing. */
  double claimed_s;
  /* Length of the sound that could not be decoded, in seconds. */
  double lost_s;
  /* The file could not be read to its end. */
  bool broke_off;
} ReadFacts;

/* Called once before the first frame is decoded, with the claimed duration (NAN when unknown). */
typedef void OnClaim(void *context, double claimed_s);
/* Called about twice a second with the length of the sound so far, in seconds. */
typedef void OnProgress(void *context, double done_s);

typedef struct {
  OnClaim *on_claim;
  OnProgress *on_progress;
  void *context;
} ReadEvents;

Failure read_parts(const Source *source, Reading *reading, const ReadEvents *events, Clock *clock, ReadFacts *facts);
/* Reads from behind a point's packet on. The first part of the source is the point's part. */
Failure read_from(const Source *source, Reading *reading, const Point *point, const ReadEvents *events, Clock *clock,
                  ReadFacts *facts);

/* ---- amplify.c ---- */

/* Multiplies the samples of a 16-bit file in place. Silence still takes no space on the disk. */
Failure amplify_file(const char *path, double factor);
