#include "token-path.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

// In the unit of the attention, which is at most the square root of the number of units. Chosen by measuring
// (scripts/bench/whisper-words.ts).
/** What a pause is worth in a frame without sound, and what it costs in a loud one. */
constexpr float kPause = 8;
constexpr float kPauseWhereLoud = 8;
/** What a unit costs in a frame without sound. */
constexpr float kUnitWhereQuiet = 4;

constexpr float kNever = -1e30f;

/** A letter takes at least this part of the time that one takes in the same window, on the whole. */
constexpr double kLeastOfLetter = 0.7;
/** No letter is taken for longer, frames: not all loud sound of a window is speech. */
constexpr double kLongestLetter = 5;
/** Of the frames that all units together take at least. */
constexpr double kMostOfFrames = 0.9;
/** What it costs that a unit takes e times the time of its letters, or that part of it. It grows with the square of the logarithm. */
constexpr double kOtherLength = 15;
/** A unit that takes more than so many times the time of its letters costs no more: speech is also drawn out. */
constexpr double kFarLonger = 4;

/** Returns how many frames a letter takes in a window, on the whole. */
double FramesOfLetter(const WindowSound& sound) {
    double letters = 0, loud = 0;
    for (const int of : sound.letters) letters += of;
    for (const float of : sound.loudness) loud += of;
    return letters > 0 ? std::min(loud / letters, kLongestLetter) : 0;
}

/** Returns how many frames each unit takes at least. */
std::vector<int> LeastFrames(const WindowSound& sound, double frames_of_letter) {
    std::vector<int> least;
    double           sum = 0;
    for (const int of : sound.letters) {
        least.push_back(std::max(1, static_cast<int>(kLeastOfLetter * frames_of_letter * of)));
        sum += least.back();
    }
    if (sum > kMostOfFrames * sound.frames) least.assign(sound.units, 1);
    return least;
}

/**
 * Finds the path unit by unit: what it is worth at most that a unit ends at a frame, for each frame, from what it is worth that the one
 * before has ended earlier. A unit may take each length, and before each word there may be a pause.
 */
class PathSearch {
   public:
    explicit PathSearch(const WindowSound& sound)
        : sound(sound), places(sound.frames + 1), frames_of_letter(FramesOfLetter(sound)),
          least(LeastFrames(sound, frames_of_letter)), pauses(places), gains(places), ended(places, kNever), net(places),
          best(places), from(places), unit_begin(static_cast<size_t>(sound.units) * places), pause_begin(unit_begin.size()) {
        for (int frame = 0; frame < sound.frames; frame++)
            pauses[frame + 1] = pauses[frame] + kPause - (kPause + kPauseWhereLoud) * sound.loudness[frame];
        ended[0] = 0;
    }

    UnitPath Find() {
        for (int unit = 0; unit < sound.units; unit++) {
            Begin(unit);
            End(unit);
        }
        return Trace();
    }

   private:
    /** Sets what it is worth to begin a unit at each frame, less what the unit itself would have been worth up to there. */
    void Begin(int unit) {
        const float* attention = sound.attention.data() + static_cast<size_t>(unit) * sound.frames;
        for (int frame = 0; frame < sound.frames; frame++) {
            const int looked = std::clamp(frame + sound.delay, 0, sound.frames - 1);
            gains[frame + 1] = gains[frame] + attention[looked] - kUnitWhereQuiet * (1 - sound.loudness[frame]);
        }
        const bool may_pause = unit == 0 || sound.begins_word[unit];
        uint16_t*  pause = pause_begin.data() + static_cast<size_t>(unit) * places;
        float      paused = kNever;
        int        since = 0;
        for (int place = 0; place < places; place++) {
            const bool after_pause = may_pause && paused + pauses[place] > ended[place];
            pause[place] = static_cast<uint16_t>(after_pause ? since : place);
            net[place] = (after_pause ? paused + pauses[place] : ended[place]) - gains[place];
            if (ended[place] - pauses[place] > paused) {
                paused = ended[place] - pauses[place];
                since = place;
            }
        }
    }

    /** Sets what it is worth that a unit ends at each frame. */
    void End(int unit) {
        const double usual = std::max(1.0, frames_of_letter * sound.letters[unit]);
        const bool   is_heard = sound.letters[unit] > 0;
        const int    far = std::max(least[unit], is_heard ? static_cast<int>(kFarLonger * usual) : 0);
        const auto   cost = [&](int length) {
            const double logarithm = std::log(length / usual);
            return is_heard ? static_cast<float>(kOtherLength * logarithm * logarithm) : 0.0f;
        };
        std::fill(best.begin(), best.end(), kNever);
        for (int length = least[unit]; length < std::min(far, places); length++) {
            const float less = cost(length);
            for (int place = length; place < places; place++) {
                const float value = net[place - length] - less;
                from[place] = value > best[place] ? place - length : from[place];
                best[place] = std::max(best[place], value);
            }
        }
        const float less = cost(far);
        float       longest = kNever;
        int         begin = 0;
        for (int place = far; place < places; place++) {
            if (net[place - far] > longest) {
                longest = net[place - far];
                begin = place - far;
            }
            if (longest - less > best[place]) {
                best[place] = longest - less;
                from[place] = begin;
            }
        }
        uint16_t* begins = unit_begin.data() + static_cast<size_t>(unit) * places;
        for (int place = 0; place < places; place++) {
            ended[place] = best[place] <= kNever / 2 ? kNever : best[place] + gains[place];
            begins[place] = static_cast<uint16_t>(from[place]);
        }
    }

    UnitPath Trace() const {
        UnitPath path;
        int      end = places - 1;
        for (int place = 0; place < places; place++) {
            if (ended[place] - pauses[place] > ended[end] - pauses[end]) end = place;
        }
        if (ended[end] <= kNever / 2) return path;
        path.begin.assign(sound.units, 0);
        path.end.assign(sound.units, 0);
        for (int unit = sound.units - 1; unit >= 0; unit--) {
            path.end[unit] = end;
            path.begin[unit] = unit_begin[static_cast<size_t>(unit) * places + end];
            end = pause_begin[static_cast<size_t>(unit) * places + path.begin[unit]];
        }
        return path;
    }

    const WindowSound& sound;
    /** Before each frame and behind the last one. */
    const int              places;
    const double           frames_of_letter;
    const std::vector<int> least;
    /** Of the frames before a place: what pauses are worth, and a unit. */
    std::vector<float> pauses, gains;
    /** For each place: what it is worth that the unit has ended there, or begins there. */
    std::vector<float> ended, net, best;
    std::vector<int>   from;
    /** For each unit and place: where a unit that ends there begins, and a pause before a unit that begins there. */
    std::vector<uint16_t> unit_begin, pause_begin;
};

}  // namespace

double ShareOf(const WindowSound& sound, const UnitPath& path, int first, int last) {
    double sum = 0;
    int    frames = 0;
    for (int unit = first; unit < last; unit++) {
        const float* row = sound.attention.data() + static_cast<size_t>(unit) * sound.frames;
        for (int frame = path.begin[unit]; frame < path.end[unit]; frame++, frames++) {
            sum += row[std::clamp(frame + sound.delay, 0, sound.frames - 1)];
        }
    }
    // A unit alone is compared with the times around it.
    return frames == 0 ? 0 : sum / frames / std::sqrt(std::max(sound.units, 2) - 1.0);
}

UnitPath FindPath(const WindowSound& sound) {
    if (sound.units == 0 || sound.units > sound.frames) return {};
    UnitPath path = PathSearch(sound).Find();
    if (!path.begin.empty()) path.share = ShareOf(sound, path, 0, sound.units);
    return path;
}

std::vector<float> LoudnessOf(const float* samples, int count, int frames) {
    constexpr int   kSamples = 320;
    // The lower part of a voice's spectrum is as loud in hum and rumble.
    constexpr float kEmphasis = 0.7f;
    constexpr float kSilence = 1e-9f;
    // Of the range between the quietest and the loudest frames, both but for a twentieth of all, decibels.
    constexpr float kLeastRange = 12, kMostRange = 35;
    // Parts of the range.
    constexpr float    kPauseBelow = 0.15f, kSpeechAbove = 0.35f;
    std::vector<float> levels(frames);
    for (int frame = 0; frame < frames; frame++) {
        float     sum = 0;
        const int end = std::min(count, (frame + 1) * kSamples);
        for (int i = std::max(1, frame * kSamples); i < end; i++) {
            const float difference = samples[i] - kEmphasis * samples[i - 1];
            sum += difference * difference;
        }
        levels[frame] = 10 * std::log10(sum / kSamples + kSilence);
    }
    std::vector<float> sorted = levels;
    std::sort(sorted.begin(), sorted.end());
    const float loudest = sorted[frames * 19 / 20];
    const float quietest = std::max(sorted[frames / 20], loudest - kMostRange);
    const float range = std::max(kLeastRange, loudest - quietest);
    for (float& level : levels) {
        const float part = (level - quietest) / range;
        level = std::clamp((part - kPauseBelow) / (kSpeechAbove - kPauseBelow), 0.0f, 1.0f);
    }
    return levels;
}
