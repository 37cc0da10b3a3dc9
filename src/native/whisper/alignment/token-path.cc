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

/** Units with the pauses that may be before words and behind the last one. */
class Steps {
   public:
    explicit Steps(const WindowSound& sound) : sound(sound) {
        for (int unit = 0; unit < sound.units; unit++) {
            if (unit == 0 || sound.begins_word[unit]) step_unit.push_back(-1);
            step_unit.push_back(unit);
        }
        step_unit.push_back(-1);
        const size_t count = step_unit.size();
        from.resize(count * sound.frames);
        before.resize(count + 2);
        now.resize(count + 2);
        values.resize(count * sound.frames);
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
            const float* value = values.data() + static_cast<size_t>(frame) * count;
            uint8_t*     came = from.data() + static_cast<size_t>(frame) * count;
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
        const int count = static_cast<int>(step_unit.size());
        for (int step = 0; step < count; step++) {
            const int    unit = step_unit[step];
            const float* row = sound.attention.data() + static_cast<size_t>(std::max(unit, 0)) * sound.frames;
            for (int frame = 0; frame < sound.frames; frame++) {
                const float loud = sound.loudness[frame];
                const int   looked = std::clamp(frame + sound.delay, 0, sound.frames - 1);
                values[static_cast<size_t>(frame) * count + step] =
                    unit < 0 ? kPause - (kPause + kPauseWhereLoud) * loud : row[looked] - kUnitWhereQuiet * (1 - loud);
            }
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
    std::vector<float>   values, before, now, may_leap;
    std::vector<uint8_t> from;
};

/** Returns the mean attention of the frames that units have, of the most that it can be. */
double ShareOf(const WindowSound& sound, const UnitPath& path) {
    double sum = 0;
    int    frames = 0;
    for (int unit = 0; unit < sound.units; unit++) {
        const float* row = sound.attention.data() + static_cast<size_t>(unit) * sound.frames;
        for (int frame = path.begin[unit]; frame < path.end[unit]; frame++, frames++) {
            sum += row[std::clamp(frame + sound.delay, 0, sound.frames - 1)];
        }
    }
    return frames == 0 || sound.units < 2 ? 0 : sum / frames / std::sqrt(sound.units - 1.0);
}

}  // namespace

UnitPath FindPath(const WindowSound& sound) {
    if (sound.units == 0 || sound.units > sound.frames) return {};
    UnitPath path = Steps(sound).Find();
    if (!path.begin.empty()) path.share = ShareOf(sound, path);
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
