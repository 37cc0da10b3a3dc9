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

/** Returns how many frames each unit takes at least. */
std::vector<int> LeastFrames(const WindowSound& sound) {
    double letters = 0, loud = 0;
    for (const int of : sound.letters) letters += of;
    for (const float of : sound.loudness) loud += of;
    const double letter = letters > 0 ? std::min(loud / letters, kLongestLetter) : 0;
    std::vector<int> least;
    double           sum = 0;
    for (const int of : sound.letters) {
        least.push_back(std::max(1, static_cast<int>(kLeastOfLetter * letter * of)));
        sum += least.back();
    }
    if (sum > kMostOfFrames * sound.frames) least.assign(sound.units, 1);
    return least;
}

/** Units, as many steps of each as it takes frames at least, with the pauses that may be before words and behind the last one. */
class Steps {
   public:
    explicit Steps(const WindowSound& sound) : sound(sound) {
        const std::vector<int> least = LeastFrames(sound);
        for (int unit = 0; unit < sound.units; unit++) {
            if (unit == 0 || sound.begins_word[unit]) step_unit.push_back(-1);
            step_unit.insert(step_unit.end(), least[unit], unit);
        }
        step_unit.push_back(-1);
        const size_t count = step_unit.size();
        from.resize(count * sound.frames);
        before.resize(count + 2);
        now.resize(count + 2);
        value.resize(count);
        values.resize(static_cast<size_t>(sound.units + 1) * sound.frames);
        may_leap.assign(count, 0.0f);
        // A unit may follow another one without the pause between them.
        for (size_t step = 2; step < count; step++) {
            if (step_unit[step] < 0 || step_unit[step - 1] >= 0) may_leap[step] = kNever;
        }
    }

    UnitPath Find() {
        SetValues();
        const int count = static_cast<int>(step_unit.size());
        // Two steps before the first one, so that each has two before it.
        float* last = before.data() + 2;
        float* next = now.data() + 2;
        std::fill(before.begin(), before.end(), kNever);
        std::fill(now.begin(), now.end(), kNever);
        last[-1] = 0;  // Before the first frame: the first pause or, without it, the first unit comes next.
        for (int frame = 0; frame < sound.frames; frame++) {
            // That of a pause is before those of the units.
            const float* of_units = values.data() + static_cast<size_t>(frame) * (sound.units + 1) + 1;
            for (int step = 0; step < count; step++) value[step] = of_units[step_unit[step]];
            uint8_t* came = from.data() + static_cast<size_t>(frame) * count;
            for (int step = 0; step < count; step++) {
                const float stay = last[step], move = last[step - 1], leap = last[step - 2] + may_leap[step];
                const float moved = std::max(move, leap);
                came[step] = stay >= moved ? 0 : (move >= leap ? 1 : 2);
                next[step] = std::max(stay, moved) + value[step];
            }
            std::swap(last, next);
            if (frame == 0) next[-1] = last[-1] = kNever;
        }
        return Trace(last);
    }

   private:
    void SetValues() {
        for (int frame = 0; frame < sound.frames; frame++) {
            const float  loud = sound.loudness[frame];
            const int    looked = std::clamp(frame + sound.delay, 0, sound.frames - 1);
            const float* attention = sound.attention.data() + looked;
            float*       to = values.data() + static_cast<size_t>(frame) * (sound.units + 1);
            *to++ = kPause - (kPause + kPauseWhereLoud) * loud;
            for (int unit = 0; unit < sound.units; unit++)
                to[unit] = attention[static_cast<size_t>(unit) * sound.frames] - kUnitWhereQuiet * (1 - loud);
        }
    }

    UnitPath Trace(const float* last) const {
        UnitPath  path;
        const int count = static_cast<int>(step_unit.size());
        int       step = last[count - 1] >= last[count - 2] ? count - 1 : count - 2;
        if (last[step] <= kNever / 2) return path;
        path.begin.assign(sound.units, 0);
        path.end.assign(sound.units, 0);
        for (int frame = sound.frames - 1; frame >= 0; frame--) {
            const int unit = step_unit[step];
            if (unit >= 0) {
                if (path.end[unit] == 0) path.end[unit] = frame + 1;
                path.begin[unit] = frame;
            }
            step -= from[static_cast<size_t>(frame) * count + step];
        }
        return path;
    }

    const WindowSound&   sound;
    std::vector<int>     step_unit;
    /** Of a frame: what each step is worth. */
    std::vector<float> value;
    /** Of each frame what a pause and each unit are worth. */
    std::vector<float>   values;
    std::vector<float>   before, now, may_leap;
    std::vector<uint8_t> from;
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
    UnitPath path = Steps(sound).Find();
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
