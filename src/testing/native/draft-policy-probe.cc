// Plays windows of a transcription to the policy of drafts: `draft-policy-probe ALONE DRAFT BATCH ENCODER AGREES WINDOWS`.
// Times in ms: a step alone, a drafted token, a further token of a step, the encoding of a window. AGREES: how many tokens of each
// draft are accepted. It prints for each window the tokens that were written ahead in its last draft; 0: it had none.
#include "draft-policy.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

int main(int, char ** arguments) {
    const double alone = atof(arguments[1]), draft = atof(arguments[2]), batch = atof(arguments[3]), encoder = atof(arguments[4]);
    const int    agrees = atoi(arguments[5]), windows = atoi(arguments[6]);
    constexpr int kFrames = 1500, kTokens = 90;
    DraftPolicy policy;
    for (int window = 0; window < windows; window++) {
        int        last = 0;
        bool       is_encoded = false;
        const bool is_wanted = policy.MayEncode(kFrames);
        for (int token = 0; token < kTokens && is_wanted;) {
            const int ahead = policy.Ahead(1);
            if (ahead > 0 && !is_encoded) policy.OnEncoded(kFrames, encoder / 1000);
            is_encoded |= ahead > 0;
            const int accepted = std::min(ahead, agrees);
            policy.OnRound({1, ahead > 0, ahead, accepted, (alone + ahead * (draft + batch)) / 1000});
            token += 1 + accepted;
            if (ahead > 0) last = ahead;
        }
        printf("%d%c", last, window + 1 < windows ? ' ' : '\n');
    }
}
