#ifndef SHRUTI_LOG_H
#define SHRUTI_LOG_H

#include <string>

/** Silences whisper.cpp and ggml. Their error lines are kept for `TakeLoggedErrors` of the same thread. */
void InstallLogCapture();

/** Returns the error lines that this thread has logged since the last call, joined; empty when there were none. */
std::string TakeLoggedErrors();

#endif
