"""Makes training examples: a window of speech with the tokens that whisper.cpp requests, and batches of them by step.

What a window teaches besides the words:
  the first timestamp is at most 1.0 s (whisper.cpp enforces it); every utterance has its own <|t0|> words <|t1|>;
  an utterance that the window's end cuts off is not written: the last token is its start, where whisper.cpp continues;
  with the code-mixing prompt of lexicon.py, or after text in that form, English words in Hindi are in Latin letters;
  [PREV] and earlier text before the start token, as in every window after a recording's first;
  silence and noise: no-speech, or <|0.00|> and the end.
"""
import random
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import Dataset

import features
from augment import augment, noise
from lexicon import codemixed
from speech import FRAME, RATE, Layout, Placer, read_phones
from tokens import EOT, LANG, NOSPEECH, NOTIMESTAMPS, PREV, SOT, TRANSCRIBE

CODEMIX = .35  # share of Hindi windows
PROMPTED = .4  # share of windows with earlier text
MAX_PROMPT_TOKENS = 223  # whisper.cpp gives no more tokens before the audio
BLUR = ((0, .6), (-1, .15), (1, .15), (-2, .05), (2, .05))  # a timestamp may be 20 or 40 ms off


@dataclass
class Script:
    """The decoder's input tokens, the tokens that it should write next, and the frames to which it may attend meanwhile."""

    read: list = field(default_factory=list)
    write: list = field(default_factory=list)  # [(token, weight)], empty where no token is expected
    look: dict = field(default_factory=dict)


class WindowMaker:
    """Draws windows from its own seed."""

    def __init__(self, tokens, pools, phone_class, audio_ctx, seed):
        self.tokens, self.pools, self.audio_ctx = tokens, pools, audio_ctx
        self.phone_class = phone_class
        self.r, self.rng = random.Random(seed), np.random.default_rng(seed)

    def _silence(self, seconds):
        length = int(seconds * RATE)
        audio = np.zeros(max(4000, int(length * self.r.choice([1, self.r.uniform(.02, 1)]))), np.float32)
        if self.r.random() < .7:
            audio = noise(self.r, self.rng, len(audio)) * np.float32(10 ** self.r.uniform(-5, -1.2))
        return Layout(audio, *np.zeros((2, length // FRAME), np.int64))

    def _timestamp(self, sample, offset):
        return self.tokens.first_ts + min(1500, max(0, round(sample / FRAME)) + offset)

    def _earlier(self, lang, form, seconds):
        """Returns tokens of earlier text, some without timestamps, some with characters for which the model has no words."""
        r, tokens, out = self.r, self.tokens, []
        for _ in range(r.randint(1, 3 if seconds < 8 else 8 if seconds < 15 else 16)):
            words = [tokens.word[w] for w in form(self.pools[lang].pick(r)[1]["t"]).split()]
            if r.random() < .7:
                at = r.randrange(0, 1400)
                words = [tokens.first_ts + at, *words, tokens.first_ts + min(1500, at + r.randint(20, 200))]
            out += words if r.random() > .03 else [tokens.unused] * r.randint(1, 6)
        return out

    def _prompt(self, lang, form, seconds):
        """Returns the tokens before the start token. Code-mixed form is always announced by its prompt."""
        is_codemix = form is codemixed
        before = list(self.tokens.codemix_prompt) if is_codemix else []
        if self.r.random() < PROMPTED:
            before += self._earlier(lang, form, seconds)
        return [self.tokens.special[PREV], *before[-MAX_PROMPT_TOKENS:]] if before else []

    def _script(self, lang, form, layout, offset, seconds):
        tokens, special, script = self.tokens, self.tokens.special, Script()
        script.read = self._prompt(lang, form, seconds)
        script.write = [[] for _ in script.read]
        script.read += [special[SOT], special[LANG[lang]], special[TRANSCRIBE]]
        start = tokens.first_ts + offset
        if not layout.said:
            script.write += [[], [(special[TRANSCRIBE], .2)], [(special[NOSPEECH], .6), (start, .4)], [(special[EOT], 1.)]]
            script.read.append(start)
            return script
        script.write += [[(special[LANG[lang]], 1.)], [(special[TRANSCRIBE], .2)]]
        is_timed = layout.cut is not None or self.r.random() > .12
        if not is_timed:
            script.write.append([])
            script.read.append(special[NOTIMESTAMPS])
        for token, where in [*self._spoken(form, layout, offset, is_timed), (special[EOT], None)]:
            if where is not None:
                script.look[len(script.write)] = where
            script.write.append(self._blurred(token))
            script.read.append(token)
        script.read.pop()
        return script

    def _spoken(self, form, layout, offset, is_timed):
        """Returns (token, frames to attend to) of the transcript."""
        def moment(sample):
            return self._timestamp(sample, offset), (sample / FRAME - 12, sample / FRAME + 12)

        for i, said in enumerate(layout.said):
            if is_timed:
                yield moment(min(said.start, RATE) if i == 0 else said.start)
            yield from zip((self.tokens.word[w] for w in form(said.text).split()), said.look)
            if is_timed:
                yield moment(said.end)
        if layout.cut is not None:
            yield moment(layout.cut)

    def _blurred(self, token):
        first, end = self.tokens.first_ts, self.tokens.unused
        if not first <= token < end:
            return [(token, 1.)]
        near = [(token + d, w) for d, w in BLUR if first <= token + d < end]
        total = sum(w for _, w in near)
        return [(t, w / total) for t, w in near]

    def window(self, seconds, light):
        """Returns a dict of the spectrogram, the script, the words for CTC, the offset in frames, and each frame's phoneme and
        word"""
        r, lang = self.r, self.r.choice(["en", "hi"])
        form = codemixed if lang == "hi" and r.random() < CODEMIX else str
        if r.random() < (.04 if seconds < 10 else .08):
            layout = self._silence(seconds)
            audio = layout.audio
        else:
            layout = Placer(r, self.pools[lang], self.phone_class, self.tokens.word).place(seconds)
            audio = augment(r, self.rng, layout.audio, light)
        mel = features.log_mel(audio, int(seconds * 100), r.choice([0, 0, r.uniform(0, 1)]))
        if r.random() < .5:
            for _ in range(r.randint(1, 2)):
                band = r.randrange(0, 70)
                mel[band:band + r.randint(2, 10)] = mel.mean()
        free = self.audio_ctx - int(seconds * 50)
        offset = 0 if seconds >= 20 or r.random() < .4 else r.randrange(0, free + 1)
        words = [] if layout.cut is not None else [w for said in layout.said for w in said.text.split()]
        return dict(mel=mel, script=self._script(lang, form, layout, offset, seconds), offset=offset,
                    ctc=[self.tokens.word[w] + 1 for w in words], phones=torch.from_numpy(layout.phones), frame_words=torch.from_numpy(layout.words))


def collate(items, tokens, most_tokens):
    """Makes a batch of tensors from windows of one length. `ctc` is padded with 0, the blank."""
    length = min(max(len(i["script"].read) for i in items), most_tokens)
    count = len(items)
    batch = dict(
        mel=torch.stack([i["mel"] for i in items]), phones=torch.stack([i["phones"] for i in items]),
        frame_words=torch.stack([i["frame_words"] for i in items]),
        offset=torch.tensor([i["offset"] for i in items]),
        read=torch.full((count, length), tokens.special[EOT]),
        write=torch.zeros(count, length, len(BLUR), dtype=torch.long), weight=torch.zeros(count, length, len(BLUR)),
        look=torch.zeros(count, length, 2, dtype=torch.long),
        ctc=torch.zeros(count, max(1, *(len(i["ctc"]) for i in items)), dtype=torch.long),
        ctc_length=torch.tensor([len(i["ctc"]) for i in items]),
    )
    for b, item in enumerate(items):
        script = item["script"]
        batch["ctc"][b, :len(item["ctc"])] = torch.tensor(item["ctc"], dtype=torch.long)
        batch["read"][b, :min(length, len(script.read))] = torch.tensor(script.read[:length])
        for k, choices in enumerate(script.write[:length]):
            for j, (token, weight) in enumerate(choices):
                batch["write"][b, k, j], batch["weight"][b, k, j] = token, weight
        for k, (first, last) in script.look.items():
            if k < length:
                first = max(0, int(first))
                batch["look"][b, k] = torch.tensor([first, max(first + 1, int(last) + 1)])
    return batch


class Batches(Dataset):
    """Yields the batch of every step of a schedule. It depends on the step and the seed alone, so that a stopped run
    continues with the same data, whatever the number of loading processes."""

    def __init__(self, schedule, tokens, pools, audio_ctx, text_ctx, seed):
        self.schedule, self.tokens, self.pools, self.seed = schedule, tokens, pools, seed
        self.audio_ctx, self.most_tokens = audio_ctx, text_ctx - 8
        self.phone_class = read_phones()

    def __len__(self):
        return self.schedule.steps

    def __getitem__(self, step):
        seed = self.seed * 1_000_003 + step
        maker = WindowMaker(self.tokens, self.pools, self.phone_class, self.audio_ctx, seed)
        stage = self.schedule.stage_at(step)
        seconds, count = maker.r.choice(stage.shapes)
        return collate([maker.window(seconds, stage.light) for _ in range(count)], self.tokens, self.most_tokens)
