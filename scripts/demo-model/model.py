"""Whisper's architecture in torch, for the compact vocabulary of tokens.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tokens import N_TS, N_VOCAB, Tokens

# audio_ctx and text_ctx are whisper.cpp's; dec_layers must not be 2, which it takes for a distilled model
CONFIG = dict(d=128, heads=4, enc_layers=4, dec_layers=3, audio_ctx=1500, text_ctx=448)
PHONE_CLASSES = 256


def sinusoids(length, channels, longest=10000):
    """Returns Whisper's positional embedding, length × channels."""
    step = math.log(longest) / (channels // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(channels // 2))[None]
    return torch.cat([torch.sin(angles), torch.cos(angles)], 1)


def gelu(x):
    """ggml's GELU, the tanh approximation, for the convolutions. The other layers use the exact function: it differs by at
    most 0.0005 and is ten times faster in bfloat16, but in torch 1.13 its backward pass is wrong for the strides of a
    convolution's output."""
    return F.gelu(x, approximate="tanh")


class Attention(nn.Module):
    """Multi-head attention. `last` keeps the weights of cross-attention for the loss on it, and `asked` the queries and
    keys of unmasked self-attention, of which that loss needs only a few rows."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.value, self.out = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, source=None, mask=None):
        is_cross = source is not None
        source = source if is_cross else x
        batch, length, d = x.shape
        size = d // self.heads
        q = self.query(x).view(batch, length, self.heads, size).transpose(1, 2) * size ** -.25
        k = self.key(source).view(batch, -1, self.heads, size).permute(0, 2, 3, 1) * size ** -.25
        v = self.value(source).view(batch, -1, self.heads, size).transpose(1, 2)
        scores = q @ k
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        self.last = weights if is_cross else None
        self.asked = None if is_cross or mask is not None else (q, k)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, d))


class Block(nn.Module):
    """A layer of the encoder, or with `cross` of the decoder."""

    def __init__(self, d, heads, cross):
        super().__init__()
        self.attn, self.attn_ln, self.cross = Attention(d, heads), nn.LayerNorm(d), cross
        if cross:
            self.cross_attn, self.cross_attn_ln = Attention(d, heads), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.mlp_ln = nn.LayerNorm(d)

    def forward(self, x, source=None, mask=None):
        x = x + self.attn(self.attn_ln(x), mask=mask)
        if self.cross:
            x = x + self.cross_attn(self.cross_attn_ln(x), source)
        return x + self.mlp(self.mlp_ln(x))


class Encoder(nn.Module):
    """Maps a spectrogram to one state for each 20 ms. `middle` keeps those of the middle layer for the phoneme head."""

    def __init__(self, d, heads, layers, ctx):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(80, d, 3, padding=1), nn.Conv1d(d, d, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(ctx, d))
        self.blocks = nn.ModuleList([Block(d, heads, False) for _ in range(layers)])
        self.ln_post = nn.LayerNorm(d)

    def forward(self, mel, offset):
        """`offset`: for each item the frame (20 ms) of the 30 s window at which this shorter piece is placed."""
        x = gelu(self.conv2(gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.positional_embedding[offset[:, None] + torch.arange(x.shape[1], device=x.device)[None]]
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == len(self.blocks) // 2 - 1:
                self.middle = x
        return self.ln_post(x)


class Decoder(nn.Module):
    """Maps tokens and encoder states to the last hidden states."""

    def __init__(self, d, heads, layers, ctx, vocab):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, d)
        self.positional_embedding = nn.Parameter(torch.randn(ctx, d) * .01)
        self.blocks = nn.ModuleList([Block(d, heads, True) for _ in range(layers)])
        self.ln = nn.LayerNorm(d)

    def forward(self, tokens, source):
        length = tokens.shape[1]
        x = self.token_embedding(tokens) + self.positional_embedding[:length]
        mask = torch.full((length, length), -1e9, device=x.device).triu(1)
        for block in self.blocks:
            x = block(x, source, mask)
        return self.ln(x)


class Whisper(nn.Module):
    """The model with three heads that are used only in training: CTC of words, the word of every frame, phoneme classes."""

    def __init__(self, words, d, heads, enc_layers, dec_layers, audio_ctx, text_ctx):
        super().__init__()
        self.tokens = Tokens(words)
        self.encoder = Encoder(d, heads, enc_layers, audio_ctx)
        self.decoder = Decoder(d, heads, dec_layers, text_ctx, self.tokens.size)
        self.ctc, self.frame_words = nn.Linear(d, len(words) + 1), nn.Linear(d, len(words) + 1)
        self.phones = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, PHONE_CLASSES))
        with torch.no_grad():  # initial values: the sinusoids of the frames that the timestamps name
            rows = self.decoder.token_embedding.weight
            rows.normal_(0, .06)
            rows[self.tokens.first_ts:self.tokens.unused] = .1 * sinusoids(N_TS, d)
        bias = torch.zeros(self.tokens.size)
        bias[-1] = math.log(N_VOCAB - self.tokens.size + 1)  # the shared row replaces this many ids of the file
        self.register_buffer("unused_bias", bias)

    def logits(self, hidden):
        """Returns logits over the compact vocabulary. Their softmax equals that of the file."""
        return hidden.float() @ self.decoder.token_embedding.weight.t() + self.unused_bias

    def init_local(self, gain=1.2):
        """Initialises every encoder head to attend some frames away, which is exact for sinusoidal positions. With absolute
        positions a transformer otherwise takes very long to learn that speech is local."""
        away = [[-2, 2, -5, 5], [-4, 4, -9, 9], [-6, 6, -14, 14], [-8, 8, -20, 20]]
        first_pair = [0, 5, 9, 12]
        d = self.encoder.positional_embedding.shape[1]
        half, step = d // 2, math.log(10000) / (d // 2 - 1)
        with torch.no_grad():
            for layer, block in enumerate(self.encoder.blocks):
                layer, size = min(layer, 3), d // block.attn.heads
                query, key = torch.randn(d, d) * .01, torch.randn(d, d) * .01
                for head in range(block.attn.heads):
                    for pair in range(size // 2):
                        k = first_pair[layer] * half // 64 + pair
                        sine, cosine = head * size + pair, head * size + pair + size // 2
                        angle = math.exp(-step * k) * away[layer][head % 4]
                        query[sine, k] += gain
                        query[cosine, half + k] += gain
                        key[sine, k] += gain * math.cos(angle)
                        key[sine, half + k] -= gain * math.sin(angle)
                        key[cosine, half + k] += gain * math.cos(angle)
                        key[cosine, k] += gain * math.sin(angle)
                block.attn.query.weight.copy_(query)
                block.attn.key.weight.copy_(key)
                block.attn.query.bias.zero_()


def new_model(words):
    """Returns an untrained model, the same for the same torch seed."""
    model = Whisper(words, **CONFIG)
    model.init_local()
    return model
