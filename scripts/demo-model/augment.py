"""Simulates the conditions of real recordings: noise, reverberation, telephone lines, speeds and levels."""
import numpy as np
from scipy.signal import fftconvolve, lfilter, resample_poly


def mu_law(samples):
    """Quantises samples in -1…1 to 8-bit µ-law (G.711) and back."""
    level = np.round(np.sign(samples) * np.log1p(255 * np.abs(samples)) / np.log(256) * 127) / 127
    return np.sign(level) * np.expm1(np.abs(level) * np.log(256)) / 255


def telephone(samples):
    """Sends 16 kHz samples through an 8 kHz µ-law line and back."""
    narrow = mu_law(np.clip(resample_poly(samples, 1, 2), -1, 1))
    return resample_poly(narrow, 2, 1)[:len(samples)].astype(np.float32)


def noise(r, rng, count):
    """Makes white, coloured or swelling noise with a level of about 1."""
    white, kind = rng.standard_normal(count).astype(np.float32), r.random()
    if kind < .35:
        return white
    if kind < .75:
        return lfilter([1], [1, -r.uniform(.7, .97)], white).astype(np.float32)
    return (white * np.abs(np.sin(np.arange(count) * r.uniform(1e-4, 2e-3) + r.random() * 6))).astype(np.float32)


def with_noise(samples, sound, decibels):
    """Returns samples with `sound` added at a signal-to-noise ratio."""
    power, its = (samples ** 2).mean() + 1e-8, (sound ** 2).mean() + 1e-12
    return samples + sound * np.float32(np.sqrt(power / 10 ** (decibels / 10) / its))


def _room(r, rng, samples):
    count = int(16000 * r.uniform(.05, .35))
    echo = rng.standard_normal(count).astype(np.float32) * np.exp(-np.arange(count) / (count / 6))
    echo *= r.uniform(.05, .4) / np.sqrt((echo ** 2).sum() + 1e-9)
    echo[0] = 1
    return fftconvolve(samples, echo)[:len(samples)].astype(np.float32)


def _level(samples, decibels):
    return samples * np.float32(10 ** (decibels / 20) * .98 / (np.abs(samples).max() + 1e-9))


def augment(r, rng, samples, light):
    """Changes a window to sound like a recording; with probability `light` only its level changes and faint noise is added."""
    if r.random() < light:
        samples = _level(samples, r.uniform(-20, 0))
        return (samples + rng.standard_normal(len(samples)) * 10 ** r.uniform(-4.5, -2.7)).astype(np.float32)
    if r.random() < .35:
        samples = lfilter([1, r.uniform(-.6, .6)], [1], samples).astype(np.float32)
    if r.random() < .25:
        samples = _room(r, rng, samples)
    if r.random() < .6:
        samples = with_noise(samples, noise(r, rng, len(samples)), r.uniform(8, 45))
    samples = _level(samples, r.uniform(-32, 0))
    return telephone(samples) if r.random() < .25 else samples.astype(np.float32)


def change_speed(r, samples):
    """Resamples 60 % of utterances: tempo, pitch and formants together, so that few voices become many.

    Returns the samples, and the factor by which they are faster."""
    if r.random() < .4:
        return samples, 1.
    factor = r.uniform(.84, 1.2)
    count = int(len(samples) / factor)
    return np.interp(np.arange(count) * factor, np.arange(len(samples)), samples).astype(np.float32), factor
