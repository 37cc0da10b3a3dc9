#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "decoder.h"

static Failure flush(Player *player) {
  const char *from = (const char *)player->buffer;
  size_t left = player->buffered * sizeof(int16_t);
  while (left > 0) {
    ssize_t written = write(STDOUT_FILENO, from, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return BROKEN_SYSTEM;
    from += written;
    left -= written;
  }
  player->buffered = 0;
  return DECODED;
}

/* Appends one sample of each lane; without planes a silent one. */
static Failure put(Player *player, const float *const *planes, int channels, int index) {
  for (int lane = 0; lane < player->lanes; lane++) {
    float value = planes && lane < channels ? rintf(planes[lane][index] * 32768.0f) : 0;
    player->buffer[player->buffered++] = value > 32767 ? 32767 : value < -32768 ? -32768 : (int16_t)value;
  }
  player->written++;
  return player->buffered + MAX_CHANNELS > PLAYER_BUFFER ? flush(player) : DECODED;
}

Failure player_take(Player *player, int64_t position, const float *const *planes, int channels, int count) {
  Failure failure = DECODED;
  int64_t next = player->from + player->written;
  /* Sound that begins later than the last one ended: there is a gap. */
  for (; next < position && player->written < player->count && failure == DECODED; next++) {
    failure = put(player, NULL, 0, 0);
  }
  for (int64_t index = next - position; index < count && player->written < player->count && failure == DECODED; index++) {
    failure = put(player, planes, channels, index);
  }
  return failure;
}

Failure player_finish(Player *player) { return flush(player); }
