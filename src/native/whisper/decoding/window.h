#ifndef SHRUTI_WINDOW_H
#define SHRUTI_WINDOW_H

#include "whisper.h"

/** How many frames a block has in which the decoder reads the encoder's output. */
constexpr int kWindowBlock = 256;

/**
 * Prepares a state for windows of so many frames, which `audio_ctx` of the parameters must be as well.
 *
 * A whole window does not fill its last block, and the decoder takes what lies behind it for frames of silence. A shorter
 * window leaves its sound there, so that is removed.
 */
void whisper_set_window(whisper_state* state, int frames);

#endif
