#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <libavutil/log.h>
#include <libavutil/mem.h>

#include "decoder.h"
#include "reader.h"

/*
 * decoder count   INPUT MAX_MS FORMAT TRACKS
 * decoder decode  INPUT MAX_MS FORMAT TRACKS mix|separate PREFIX SUFFIX OUTLINE
 * decoder outline INPUT MAX_MS FORMAT TRACKS mix|separate OUTLINE
 * decoder play    INPUT FORMAT TRACKS mix|separate LANES FROM COUNT POINT
 * decoder amplify FILE FACTOR
 *
 * FORMAT is that of a file without a signature (src/domain/raw-formats.ts): `-`, or DEMUXER,RATE_HZ,CHANNELS,CODE_BITS.
 * TRACKS says which audio tracks are read: `one` or `all` where it is not known yet, or their numbers from 0, with commas.
 * Standard output carries only lines of JSON: {"done_ms": …} about twice a second, and one report at the end, which is
 * {"failed": NAME} or the measurements. All of it is numbers and our own names. No text of the recording is ever written.
 * `play` writes 16-bit samples instead, COUNT of each lane from sample FROM on, fewer at the end of the recording. POINT has
 * the eight numbers of a point of the outline, separated by commas, or is `-`.
 * `decode` writes PREFIX SUFFIX, or with `separate` PREFIX 0 SUFFIX, PREFIX 1 SUFFIX, and so on; it never replaces files.
 */

static const char *const FAILURES[] = {
    [NO_AUDIO] = "no_audio",   [UNDECODABLE] = "undecodable", [ABSURD_FORMAT] = "absurd_format",
    [TOO_LONG] = "too_long",   [NO_SPACE] = "no_space",       [NO_MEMORY] = "no_memory",
    [BROKEN_SYSTEM] = "broken_system",
};

/* ---- Limits ---- */

#define NICENESS 10
/* An hour of audio was measured to take 5 to 16 MB, and 12 hours of M4A, which has the largest index, 142 MB. */
#define MAX_ADDRESS_SPACE_BYTES (384 * 1024 * 1024)
#define MAX_ALLOCATION_BYTES (192 * 1024 * 1024)
/* Peaks, points and the line before them; see outline.c. */
#define MAX_OUTLINE_BYTES (2 * 1024 * 1024)
/* Standard output may be a file. */
#define REPORT_BYTES 65536
/*
 * Processor time, nine times what the slowest recordings were measured to take on a server's core: the lowest modes of
 * AMR, 0.9 MB per second (wide-band, at 980 times real time) and 1.3 MB per second (narrow-band).
 */
#define CPU_S 20.0
#define CPU_S_PER_MEGABYTE 10.0
#define CPU_S_PER_CLAIMED_S 0.01

static void limit(int resource, double soft, double hard) {
  struct rlimit values = {.rlim_cur = (rlim_t)ceil(soft), .rlim_max = (rlim_t)ceil(hard)};
  setrlimit(resource, &values);
}

/* Sets the limits before the recording is read. When memory runs short, the kernel ends this process first. */
static void restrain(int64_t input_bytes, double max_s, double max_file_bytes, int niceness) {
  double cpu_s = CPU_S + CPU_S_PER_MEGABYTE * input_bytes / 1e6;
  setpriority(PRIO_PROCESS, 0, niceness);
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_AS, MAX_ADDRESS_SPACE_BYTES, MAX_ADDRESS_SPACE_BYTES);
  limit(RLIMIT_FSIZE, max_file_bytes + REPORT_BYTES, max_file_bytes + REPORT_BYTES);
  limit(RLIMIT_CPU, cpu_s, cpu_s + CPU_S_PER_CLAIMED_S * max_s + 1);
  signal(SIGXFSZ, SIG_IGN);
  av_max_alloc(MAX_ALLOCATION_BYTES);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "1000", 4) < 0) fprintf(stderr, "oom_score_adj could not be set\n");
  close(fd);
#endif
}

static void allow_for(double claimed_s) {
  struct rlimit cpu;
  if (getrlimit(RLIMIT_CPU, &cpu) != 0) return;
  rlim_t wanted = cpu.rlim_cur + (rlim_t)(CPU_S_PER_CLAIMED_S * claimed_s);
  cpu.rlim_cur = wanted < cpu.rlim_max ? wanted : cpu.rlim_max;
  setrlimit(RLIMIT_CPU, &cpu);
}

/* ---- Report ---- */

static void report_failure(Failure failure) { printf("{\"failed\": \"%s\"}\n", FAILURES[failure]); }

static void report_levels(const Tracks *tracks) {
  const Levels *levels = &tracks->levels;
  printf(", \"peak_db\": %.3f, \"mix_db\": %.3f, \"high_db\": %.3f", amplitude_db(levels->peak),
         power_db(levels->mix), power_db(levels->high));
  if (tracks->channels == 2 && tracks->is_stereo_throughout) printf(", \"sides_db\": %.3f", power_db(levels->sides));
  printf(", \"clipped_ratio\": %.6f, \"tracks\": [",
         levels->samples > 0 ? (double)levels->full_scale / levels->samples : 0);
  for (int index = 0; index < tracks->track_count; index++) {
    const TrackLevels *track = &tracks->tracks[index]->levels;
    printf("%s{\"peak_db\": %.3f, \"loudest_db\": %.3f}", index > 0 ? ", " : "", amplitude_db(track->peak),
           amplitude_db(sqrt(track->loudest)));
  }
  printf("]");
}

static void report_list(const char *name, const bool *is_listed) {
  const char *separator = "";
  printf(", \"%s\": [", name);
  for (int track = 0; track < MAX_AUDIO_TRACKS; track++) {
    if (!is_listed[track]) continue;
    printf("%s%d", separator, track);
    separator = ", ";
  }
  printf("]");
}

/* What was found about how the file has to be read. */
static void report_reading(const Reading *reading) {
  printf(", \"is_raw\": %s", reading->is_raw ? "true" : "false");
  if (reading->track == TRACK_UNKNOWN) return;
  printf(", \"track\": %d", reading->track);
  report_list("left_out", reading->is_left_out);
  if (has_lanes(reading)) report_list("mixed", reading->is_mixed);
}

static void report(const Tracks *tracks, const ReadFacts *facts, const Reading *reading) {
  printf("{\"samples\": %lld, \"channels\": %d, \"sample_rate_hz\": %d, \"lost_ms\": %.0f, \"broke_off\": %s",
         (long long)tracks->position, tracks->channels, tracks->rate_hz, facts->lost_s * 1000,
         facts->broke_off ? "true" : "false");
  if (!isnan(facts->claimed_s)) printf(", \"claimed_ms\": %.0f", facts->claimed_s * 1000);
  report_reading(reading);
  if (tracks->options.prefix) report_levels(tracks);
  printf("}\n");
}

/* ---- Commands ---- */

typedef struct {
  double max_s;
  struct timespec reported;
} Run;

/* What headers claim only gives more processor time. A long recording ends at the limit, when that much was decoded. */
static void on_claim(void *context, double claimed_s) {
  const Run *run = context;
  if (!isnan(claimed_s)) allow_for(claimed_s < run->max_s ? claimed_s : run->max_s);
}

static void on_progress(void *context, double done_s) {
  Run *run = context;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if ((now.tv_sec - run->reported.tv_sec) * 1e3 + (now.tv_nsec - run->reported.tv_nsec) / 1e6 < 500) return;
  run->reported = now;
  printf("{\"done_ms\": %.0f}\n", done_s * 1000);
  fflush(stdout);
}

static void do_not_report(void *context, double done_s) { (void)context, (void)done_s; }

/* A recording that rounds to 0 ms has no length that can be billed. */
#define SHORTEST_SAMPLES (OUTPUT_RATE_HZ / 2000)

static Failure decode(const Source *source, Reading *reading, Run *run, Tracks *tracks, ReadFacts *facts) {
  ReadEvents events = {.on_claim = on_claim, .on_progress = on_progress, .context = run};
  Clock clock = {0};
  Failure failure = clock_open(&clock, tracks);
  if (failure == DECODED) failure = read_parts(source, reading, &events, &clock, facts);
  if (failure == DECODED) failure = tracks_finish(tracks);
  clock_close(&clock);
  return failure == DECODED && tracks->position < SHORTEST_SAMPLES ? UNDECODABLE : failure;
}

typedef struct {
  /* With NULL no sound is kept, and no outline is made. */
  const char *mode;
  /* NULL: no file of the sound is written. */
  const char *prefix, *suffix;
  const char *outline;
} Outputs;

static int run_decode(char **arguments, Outputs outputs) {
  double max_s = strtod(arguments[1], NULL) / 1000 + OVERRUN_S;
  bool keeps_sound = outputs.mode != NULL;
  Run run = {.max_s = max_s};
  TrackOptions options = {.max_s = max_s, .prefix = outputs.prefix, .suffix = outputs.suffix};
  Outline outline = {0};
  Reading reading;
  Source source;
  Tracks tracks;
  ReadFacts facts = {0};
  if (!reading_parse(&reading, arguments[2], arguments[3])) return 2;
  clock_gettime(CLOCK_MONOTONIC, &run.reported);
  Failure failure = source_open(&source, arguments[0]);
  restrain(source.bytes, max_s, keeps_sound ? MAX_OUTLINE_BYTES + (max_s + 1) * OUTPUT_RATE_HZ * sizeof(int16_t) : 0,
           NICENESS);
  if (keeps_sound) {
    if (failure == DECODED) failure = outline_open(&outline);
    options.separate = !strcmp(outputs.mode, "separate");
    options.outline = &outline;
  }
  tracks_open(&tracks, options);
  if (failure == DECODED) failure = source_find_parts(&source);
  if (failure == DECODED) failure = decode(&source, &reading, &run, &tracks, &facts);
  if (failure == DECODED && keeps_sound) failure = outline_write(&outline, outputs.outline, tracks.position);
  if (failure == DECODED) report(&tracks, &facts, &reading);
  else report_failure(failure);
  tracks_close(&tracks);
  outline_close(&outline);
  source_close(&source);
  return 0;
}

static bool parse_point(const char *text, Point *point) {
  long long start, end, position, time, stretch_position, stretch_samples;
  int length = 0;
  int got = sscanf(text, "%lld,%lld,%lld,%lld,%lf,%lf,%lld,%lld%n", &start, &end, &position, &time, &point->at_s,
                   &point->base_s, &stretch_position, &stretch_samples, &length);
  point->part_start = start, point->part_end = end, point->position = position, point->time = time;
  point->stretch_position = stretch_position, point->stretch_samples = stretch_samples;
  return got == 8 && text[length] == 0 && stretch_samples >= 0;
}

static Failure play(const Source *source, Reading *reading, const Point *point, Run *run, Tracks *tracks) {
  ReadEvents events = {.on_claim = on_claim, .on_progress = do_not_report, .context = run};
  ReadFacts facts;
  Clock clock = {0};
  Failure failure = clock_open(&clock, tracks);
  if (failure == DECODED) failure = read_from(source, reading, point, &events, &clock, &facts);
  if (failure == DECODED) failure = tracks_finish(tracks);
  clock_close(&clock);
  return failure;
}

/* Ends with status 1 when nothing was written because of a failure. */
static int run_play(char **arguments) {
  static Player player;
  Reading reading;
  player = (Player){.lanes = atoi(arguments[4]), .from = atoll(arguments[5]), .count = atoll(arguments[6])};
  if (player.lanes < 1 || player.lanes > MAX_CHANNELS || player.from < 0 || player.count < 1) return 2;
  if (!reading_parse(&reading, arguments[1], arguments[2])) return 2;
  bool has_point = strcmp(arguments[7], "-") != 0;
  Point point = {.position = -1, .time = AV_NOPTS_VALUE};
  if (has_point && !parse_point(arguments[7], &point)) return 2;
  /* A packet more, so that the resampler has given out all that is wanted. */
  double max_s = (double)(player.from + player.count) / OUTPUT_RATE_HZ + OVERRUN_S;
  Run run = {.max_s = max_s};
  Source source;
  Tracks tracks;
  Failure failure = source_open(&source, arguments[0]);
  restrain(source.bytes, max_s, 0, 0);
  tracks_open(&tracks, (TrackOptions){.max_s = max_s, .separate = !strcmp(arguments[3], "separate"), .player = &player});
  if (failure == DECODED) {
    failure = has_point ? source_begin_at(&source, (Part){point.part_start, point.part_end}) : source_find_parts(&source);
  }
  if (point.position >= 0 || point.time != AV_NOPTS_VALUE) tracks_resume(&tracks, &point);
  if (failure == DECODED) failure = play(&source, &reading, &point, &run, &tracks);
  /* Decoding ends there on purpose. */
  if (failure == TOO_LONG) failure = DECODED;
  if (player_finish(&player) != DECODED) failure = BROKEN_SYSTEM;
  tracks_close(&tracks);
  source_close(&source);
  return failure == DECODED ? 0 : 1;
}

static int run_amplify(char **arguments) {
  Failure failure = amplify_file(arguments[0], strtod(arguments[1], NULL));
  if (failure == DECODED) printf("{\"amplified\": true}\n");
  else report_failure(failure);
  return 0;
}

/* Discards libav's messages, which quote text of the recording, such as titles and file names. */
static void say_nothing(void *context, int level, const char *format, va_list values) {
  (void)context, (void)level, (void)format, (void)values;
}

int main(int count, char **arguments) {
  av_log_set_callback(say_nothing);
  if (count == 6 && !strcmp(arguments[1], "count")) return run_decode(arguments + 2, (Outputs){0});
  if (count == 10 && !strcmp(arguments[1], "decode")) {
    Outputs outputs = {.mode = arguments[6], .prefix = arguments[7], .suffix = arguments[8], .outline = arguments[9]};
    return run_decode(arguments + 2, outputs);
  }
  if (count == 8 && !strcmp(arguments[1], "outline")) {
    return run_decode(arguments + 2, (Outputs){.mode = arguments[6], .outline = arguments[7]});
  }
  if (count == 10 && !strcmp(arguments[1], "play")) return run_play(arguments + 2);
  if (count == 4 && !strcmp(arguments[1], "amplify")) return run_amplify(arguments + 2);
  fprintf(stderr, "usage: decoder count|decode|outline|play|amplify ...\n");
  return 2;
}
