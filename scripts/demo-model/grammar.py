"""Draws sentences of the domain at random: phrases, and templates with numbers, days, months, times and amounts.

A sentence is a string of words of `lexicon.py` in native script. Sentences of four or more words that a template made
are split by a hash: a tenth is held out and never used in training.
"""
import random
import re
import zlib

import lexicon as L
from lexicon import nfc

# share, template: each occurrence of {slot} is filled separately by SLOTS below
TEMPLATES = {
    "en": [
        (14, "{digits}"), (12, "my {numbered} number is {digits}"), (5, "the {numbered} number is {digits}"),
        (8, "{number}"), (8, "{number} rupees"), (6, "the total is {number} rupees"), (3, "i have paid {number} rupees"),
        (8, "turn {switch} the {device}"), (5, "the {event} is on {day}"), (6, "the {event} is on {day} at {time}"),
        (5, "the {event} is on {date}"), (5, "today is {day} {date}"), (4, "it is {time}"), (2, "{day}"), (2, "{date}"),
        (4, "i have a problem with my {thing}"), (4, "when will my {thing} come"), (3, "please check my {thing}"),
        (22, "{phrase}"),
    ],
    "hi": [
        (14, "{digits}"), (14, "मेरा {numbered} नंबर {digits} है"), (5, "मेरा {numbered} नंबर {loandigits} है"),
        (10, "{number}"), (8, "{number} रुपये"), (6, "कुल {number} रुपये है"), (3, "टोटल {number} रुपये है"),
        (3, "मैंने {number} रुपये दिए हैं"), (8, "{device} {switch} करो"), (5, "{event} {day} को है"),
        (6, "{event} {day} को {time} है"), (5, "{event} {date} को है"), (4, "{event} {loanday} को है"),
        (5, "आज {day} {date} है"), (4, "अभी {time} हैं"), (2, "{day}"), (2, "{date}"), (3, "{loandigits}"),
        (4, "मुझे {thing} में प्रॉब्लम है"), (4, "मेरा {own} कब आएगा"), (3, "प्लीज़ मेरा {own} चेक करो"),
        (24, "{phrase}"),
    ],
}


def below_hundred(n, lang):
    """Returns a number from 0 to 99 in words."""
    if lang == "hi":
        return L.NUMBERS_HI[n]
    if n < 20:
        return (L.DIGITS_EN + L.TEENS_EN)[n]
    return L.TENS_EN[n // 10 - 2] + ("" if n % 10 == 0 else " " + L.DIGITS_EN[n % 10])


def number_words(n, lang):
    """Returns a number from 1 to 9,999,999 in words, counted as in India: lakh, thousand, hundred."""
    units = {"en": ("lakh", "thousand", "hundred"), "hi": ("लाख", "हज़ार", "सौ")}[lang]
    words = []
    for size, unit in zip((100_000, 1000, 100), units):
        if n >= size:
            words += [below_hundred(n // size, lang), unit]
            n %= size
    if n > 0:
        words.append(below_hundred(n, lang))
    return " ".join(words)


def some_number(r, lang):
    """Draws a number: mostly below a hundred, where every number has its own word; also round and long ones up to lakhs."""
    size = r.choices(["tens", "hundreds", "round", "thousands", "lakhs"], [45, 15, 15, 15, 10])[0]
    n = {
        "tens": lambda: r.randint(1, 99),
        "hundreds": lambda: r.randint(100, 999),
        "round": lambda: r.randint(1, 99) * r.choice([100, 1000, 100_000]),
        "thousands": lambda: r.randint(1000, 99_999),
        "lakhs": lambda: r.randint(1, 99) * 100_000 + r.choice([0, r.randint(1, 99) * 1000]),
    }[size]()
    return number_words(n, lang)


def some_time(r, lang):
    """Draws a time of day: five o'clock, half past by number, or with am and pm."""
    hour = r.randint(1, 12)
    if lang == "hi":
        minutes = r.choice(["", " %s मिनट" % L.NUMBERS_HI[r.randint(1, 59)]])
        part = r.choice(["", "", "सुबह ", "शाम "])
        return part + L.NUMBERS_HI[hour] + " बजे" + (" और" + minutes if minutes else "")
    form = r.choice(["%s o'clock", "%s thirty", "%s {m}", "%s am", "%s pm", "%s thirty pm"])
    return form.replace("{m}", below_hundred(r.randint(10, 59), "en")) % below_hundred(hour, "en")


def some_date(r, lang):
    """Draws a day of the month and a month."""
    return "%s %s" % (below_hundred(r.randint(1, 31), lang), r.choice(L.MONTHS_HI if lang == "hi" else L.MONTHS_EN))


def slots(lang):
    """Slot name → function that draws its words with a random generator."""
    hindi = lang == "hi"
    lists = dict(
        numbered=L.NUMBERED_HI if hindi else L.NUMBERED_EN, device=L.DEVICES_HI if hindi else L.DEVICES_EN,
        thing=L.THINGS_HI if hindi else L.THINGS_EN, own=L.MASCULINE_HI, event=L.EVENTS_HI if hindi else L.EVENTS_EN,
        day=L.DAYS_HI if hindi else L.DAYS_EN, switch=["चालू", "बंद", "ऑन", "ऑफ़"] if hindi else ["on", "off"],
        phrase=L.phrases(L.PHRASES_HI if hindi else L.PHRASES_EN), loanday=L.LOAN_DAYS,
    )
    out = {name: (lambda words: lambda r: r.choice(words))(words) for name, words in lists.items()}
    digits = L.NUMBERS_HI[:10] if hindi else L.DIGITS_EN
    out["digits"] = lambda r: " ".join(r.choices(digits, k=r.randint(2, 8)))
    out["loandigits"] = lambda r: " ".join(r.choices(L.LOAN_DIGITS, k=r.randint(2, 6)))
    out["number"] = lambda r: some_number(r, lang)
    out["time"] = lambda r: some_time(r, lang)
    out["date"] = lambda r: some_date(r, lang)
    return out


SLOTS = {"en": slots("en"), "hi": slots("hi")}


def from_template(r, lang):
    """Draws one sentence. Also returns whether it is a fixed phrase."""
    shares, templates = zip(*TEMPLATES[lang])
    template = r.choices(templates, shares)[0]
    return nfc(re.sub(r"\{(\w+)\}", lambda m: SLOTS[lang][m.group(1)](r), template)), template == "{phrase}"


def vocabulary():
    """Lists every word that a sentence, a hesitation or the code-mixing prompt can contain, in a fixed order."""
    words = {L.UNKNOWN, *L.LOANS.values(), *map(nfc, L.FILLERS["en"] + L.FILLERS["hi"])}
    words.update(re.sub(r"[,।]", "", nfc(L.CODEMIX_PROMPT)).split())
    for lang in ("en", "hi"):
        for n in range(100):
            words.update(below_hundred(n, lang).split())
        r = random.Random(7)
        for _ in range(20_000):
            words.update(from_template(r, lang)[0].split())
    return sorted(map(nfc, words))


def words_of(lang):
    """Lists the words that sentences of a language can contain, without hesitations and code-mixed Latin words."""
    r, words = random.Random(8), set()
    for _ in range(20_000):
        words.update(from_template(r, lang)[0].split())
    return sorted(words)


def is_held_out(text):
    """Reports whether a sentence is held out: a tenth of all longer sentences."""
    return len(text.split()) >= 4 and zlib.crc32(text.encode()) % 10 == 0


class Sentences:
    """Draws sentences. `held_out`: True only those kept out of training, False only those for training, None any."""

    SALAD = 0.15  # share of training sentences with words in random order, which teach sounds without the grammar
    HESITANT = 0.07

    def __init__(self, r, lang, held_out):
        self.r, self.lang, self.held_out = r, lang, held_out
        self.words = words_of(lang)

    def next(self):
        """Returns a sentence in native script with its hesitations."""
        while True:
            if self.held_out is False and self.r.random() < self.SALAD:
                return " ".join(self.r.choices(self.words, k=self.r.randint(1, 6)))
            text, is_phrase = from_template(self.r, self.lang)
            if self.held_out is None or is_phrase and self.held_out is False:
                return self._hesitant(text)
            if not is_phrase and is_held_out(text) == self.held_out:
                return self._hesitant(text)

    def _hesitant(self, text):
        if self.r.random() >= self.HESITANT:
            return text
        words = text.split()
        words.insert(self.r.randint(0, len(words) - 1), nfc(self.r.choice(L.FILLERS[self.lang])))
        return " ".join(words)
