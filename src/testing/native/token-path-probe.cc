// Finds when words are spoken, as alignment does it: `token-path-probe FRAMES DELAY WORD@FROM-TO ...` gives each word as one unit to which
// heads look from one frame to another; the sound is loud from the first one to the last, and quiet before and behind. It prints the frames of each word, and the shares of the whole and of each. `token-path-probe TEXT`
// prints as how many letters a text is spoken, and 1 where it begins in a script without spaces.
#include "spoken-letters.h"
#include "token-path.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int count, char ** arguments) {
    if (count == 2) {
        printf("%d %d\n", SpokenLetters(arguments[1]), BeginsUnspaced(arguments[1]) ? 1 : 0);
        return 0;
    }
    WindowSound sound;
    sound.frames = atoi(arguments[1]);
    sound.delay = atoi(arguments[2]);
    sound.units = count - 3;
    sound.attention.assign(static_cast<size_t>(sound.units) * sound.frames, 0.0f);
    sound.loudness.assign(sound.frames, 0.0f);
    int first = sound.frames, last = 0;
    for (int unit = 0; unit < sound.units; unit++) {
        char * at = strchr(arguments[unit + 3], '@');
        int    from = 0, to = 0;
        sscanf(at, "@%d-%d", &from, &to);
        *at = '\0';
        sound.letters.push_back(SpokenLetters(arguments[unit + 3]));
        sound.begins_word.push_back(true);
        first = std::min(first, from);
        last = std::max(last, to);
        for (int frame = from; frame < to; frame++) sound.attention[unit * sound.frames + frame] = 1.5f;
    }
    std::fill(sound.loudness.begin() + first - sound.delay, sound.loudness.begin() + last - sound.delay, 1.0f);
    const UnitPath path = FindPath(sound);
    for (int unit = 0; unit < sound.units; unit++) printf("%d-%d ", path.begin[unit], path.end[unit]);
    printf("%.2f", path.share);
    for (int unit = 0; unit < sound.units; unit++) printf(" %.2f", ShareOf(sound, path, unit, unit + 1));
    printf("\n");
}
