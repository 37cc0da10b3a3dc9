"""Computes the log-mel spectrogram of whisper.cpp (log_mel_spectrogram in src/whisper.cpp) in torch."""
import numpy as np
import torch

RATE, N_FFT, HOP, N_MEL = 16000, 400, 160, 80


def mel_filters():
    """Returns Slaney's mel filter bank, 80 × 201, which every whisper model file contains."""

    def to_hz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + 27 * np.log(8000 / 1000) / np.log(6.4)
    hz = to_hz(np.linspace(0, top, N_MEL + 2))
    bins = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return (np.maximum(0, np.minimum(up, down)) * (2 / (hz[2:] - hz[:-2]))[:, None]).astype(np.float32)


FILTERS = torch.from_numpy(mel_filters())
WINDOW = torch.hann_window(N_FFT)


def log_mel(audio, n_frames, floor_raise=0.0):
    """Converts float32 audio to (80, n_frames): 200 samples are reflected at the start, zeros follow the end, and values are
    clamped 8 below the maximum. whisper.cpp uses the maximum of the whole recording, and a training window only its own.
    `floor_raise` simulates a louder passage elsewhere."""
    samples, length = torch.from_numpy(audio), n_frames * HOP
    padded = torch.zeros(length + N_FFT)
    taken = min(len(samples), length + N_FFT // 2)
    padded[200:200 + taken] = samples[:taken]
    padded[:200] = samples[1:201].flip(0)
    power = torch.stft(padded, N_FFT, HOP, window=WINDOW, center=False, return_complex=True).abs() ** 2
    mel = torch.clamp(FILTERS @ power[:, :n_frames], min=1e-10).log10()
    return (torch.maximum(mel, mel.max() - 8 + floor_raise) + 4) / 4
