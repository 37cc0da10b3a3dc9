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

/*
 * decoder count   INPUT MAX_MS LENGTH
 * decoder decode  INPUT MAX_MS LENGTH mix|separate PREFIX SUFFIX
 * decoder amplify FILE FACTOR
 *
 * LENGTH says how the length in a WAV header compares with the file (wav-extent.ts): `understated`, `overstated`, `right`.
 * Standard output carries only lines of JSON: {"done_ms": …} about twice a second, and one report at the end, which is
 * {"failed": NAME} or the measurements. All of it is numbers and our own names. No text of the recording is ever written.
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
static void restrain(int64_t input_bytes, double max_s, double max_file_bytes) {
  double cpu_s = CPU_S + CPU_S_PER_MEGABYTE * input_bytes / 1e6;
  setpriority(PRIO_PROCESS, 0, NICENESS);
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

static void report(const Tracks *tracks, const ReadFacts *facts) {
  printf("{\"samples\": %lld, \"channels\": %d, \"sample_rate_hz\": %d, \"lost_ms\": %.0f, \"broke_off\": %s",
         (long long)tracks->position, tracks->channels, tracks->rate_hz, facts->lost_s * 1000,
         facts->broke_off ? "true" : "false");
  if (!isnan(facts->claimed_s)) printf(", \"claimed_ms\": %.0f", facts->claimed_s * 1000);
  if (tracks->options.prefix) report_levels(tracks);
  printf("}\n");
}

/* ---- Commands ---- */

typedef struct {
  /*
   * The claim of the header is not a reason to refuse: the header claims more sound than the file holds, or the recording
   * was measured before.
   */
  bool ignores_claim;
  double max_s;
  struct timespec reported;
} Run;

static Failure on_claim(void *context, double claimed_s) {
  Run *run = context;
  if (isnan(claimed_s)) return DECODED;
  if (!run->ignores_claim && claimed_s > run->max_s) return TOO_LONG;
  allow_for(claimed_s < run->max_s ? claimed_s : run->max_s);
  return DECODED;
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

static Failure decode(const Source *source, bool ignore_wav_length, Run *run, Tracks *tracks, ReadFacts *facts) {
  ReadEvents events = {.on_claim = on_claim, .on_progress = on_progress, .context = run};
  Clock clock = {0};
  Failure failure = clock_open(&clock, tracks);
  if (failure == DECODED) failure = read_parts(source, ignore_wav_length, &events, &clock, facts);
  if (failure == DECODED) failure = tracks_finish(tracks);
  clock_close(&clock);
  return failure == DECODED && tracks->position == 0 ? UNDECODABLE : failure;
}

static int run_decode(char **arguments, bool keeps_sound) {
  double max_s = strtod(arguments[1], NULL) / 1000 + OVERRUN_S;
  Run run = {.ignores_claim = keeps_sound || !strcmp(arguments[2], "overstated"), .max_s = max_s};
  TrackOptions options = {.max_s = max_s};
  if (keeps_sound) {
    options.separate = !strcmp(arguments[3], "separate");
    options.prefix = arguments[4];
    options.suffix = arguments[5];
  }
  Source source;
  Tracks tracks;
  ReadFacts facts = {0};
  clock_gettime(CLOCK_MONOTONIC, &run.reported);
  Failure failure = source_open(&source, arguments[0]);
  restrain(source.bytes, max_s, keeps_sound ? (max_s + 1) * OUTPUT_RATE_HZ * sizeof(int16_t) : 0);
  tracks_open(&tracks, options);
  if (failure == DECODED) failure = source_find_parts(&source);
  if (failure == DECODED) failure = decode(&source, !strcmp(arguments[2], "understated"), &run, &tracks, &facts);
  if (failure == DECODED) report(&tracks, &facts);
  else report_failure(failure);
  tracks_close(&tracks);
  source_close(&source);
  return 0;
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
  if (count == 5 && !strcmp(arguments[1], "count")) return run_decode(arguments + 2, false);
  if (count == 8 && !strcmp(arguments[1], "decode")) return run_decode(arguments + 2, true);
  if (count == 4 && !strcmp(arguments[1], "amplify")) return run_amplify(arguments + 2);
  fprintf(stderr, "usage: decoder count|decode|amplify ...\n");
  return 2;
}
