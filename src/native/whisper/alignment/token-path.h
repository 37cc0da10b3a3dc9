#ifndef SHRUTI_TOKEN_PATH_H
#define SHRUTI_TOKEN_PATH_H

#include <vector>

/** What is known of a window before its tokens have times. */
struct WindowSound {
    /** How many frames after a unit is heard the heads look at it; less than 0: before. */
    int delay = 0;
    /** How many characters there are, in tokens of their own or several of one token. */
    int units = 0;
    int frames = 0;
    /** A row of numbers for each unit, one for each frame: how much more than other units are looked at there. */
    std::vector<float> attention;
    /** Whether a unit begins a word, before which there may be a pause. */
    std::vector<bool> begins_word;
    /** For each unit, as how many letters it is spoken (`SpokenLetters`); 0: it is not heard. */
    std::vector<int> letters;
    /** For each frame how loud it is: 0 is a pause, 1 is speech. */
    std::vector<float> loudness;
};

/** The frames of each unit, first included and last not, in order and not overlapping. */
struct UnitPath {
    std::vector<int> begin;
    std::vector<int> end;
    /** How much of the heads' attention lies along the path, at most 1; about 0 for heads that look anywhere. */
    double share = 0;
};

/**
 * Finds when each unit is spoken: the best way through what the heads look at, with pauses where the sound is quiet. It is
 * dynamic time warping, as the authors of Whisper use it (openai/whisper, `timing.py`), with pauses between words of their own, and
 * with a time that each unit usually takes, by its letters, because heads leave a word early for the next one.
 *
 * @returns an empty path where there are more units than frames
 */
UnitPath FindPath(const WindowSound& sound);

/**
 * Returns the share of the attention along a path that some of its units have, as `UnitPath::share` is that of all.
 *
 * @param first of the units
 * @param last behind them
 */
double ShareOf(const WindowSound& sound, const UnitPath& path, int first, int last);

/**
 * Returns how loud each frame of 20 ms is, from 0, which is a pause, to 1. The quietest and the loudest frames of the same sound
 * are the measure.
 *
 * @param samples of 16 kHz
 */
std::vector<float> LoudnessOf(const float* samples, int count, int frames);

#endif
