"""Computes the losses of a step: the transcript, words and phonemes from the encoder alone, and attention."""
import torch
import torch.nn.functional as F

LOCAL_ROWS, LOCAL_FRAMES = 64, 100  # rows sampled, and frames (2 s) within which self-attention should stay
LOCAL_FROM = 400  # frames: shorter windows are local by themselves
GUIDED_HEADS = 2


def _word_ctc(model, states, batch):
    """Computes the CTC loss of words: the encoder learns them long before the decoder can find them."""
    kept = batch["ctc_length"] > 0
    if not kept.any():
        return None
    log_probs = F.log_softmax(model.ctc(states[kept].float()), -1).transpose(0, 1)
    lengths = batch["ctc_length"][kept]
    frames = torch.full_like(lengths, log_probs.shape[0])
    loss = F.ctc_loss(log_probs, batch["ctc"][kept], frames, lengths, zero_infinity=True, reduction="sum")
    return loss / lengths.sum()


def _phonemes(model, batch):
    """Computes the loss of phoneme classes by frame, from espeak-ng's events, at the encoder's middle layer."""
    if not (batch["phones"] != -100).any():
        return None
    scores = model.phones(model.encoder.middle.float())
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), batch["phones"].reshape(-1), ignore_index=-100)


def _frame_words(model, states, batch):
    """Computes the loss of each frame's word, where the engine gave times. It is learnt far sooner than CTC gives up blanks."""
    labels = batch["frame_words"].reshape(-1)
    kept = labels != -100
    if not kept.any():
        return None
    return F.cross_entropy(model.frame_words(states.reshape(len(labels), -1)[kept].float()), labels[kept])


def _guided_attention(model, batch, frames):
    """Makes two heads of every decoder layer except the first attend to the word that is being written."""
    look = batch["look"]
    asked = look[..., 1] > 0
    if not asked.any():
        return None
    at = torch.arange(frames, device=look.device)[None, None]
    mask = ((at >= look[..., :1]) & (at < look[..., 1:])).float()
    loss, blocks = 0., model.decoder.blocks[1:]
    for block in blocks:
        mass = (block.cross_attn.last[:, :GUIDED_HEADS].float() * mask[:, None]).sum(-1)
        loss = loss - (torch.log(mass + 1e-3) * asked[:, None]).sum()
    return loss / (asked.sum() * GUIDED_HEADS * len(blocks))


def _local_attention(model, frames, device):
    """Keeps self-attention of the encoder near in long windows. Without this loss it spreads over the whole window."""
    if frames <= LOCAL_FROM:
        return None
    rows = torch.randint(0, frames, (LOCAL_ROWS,)).to(device)
    near = ((torch.arange(frames, device=device)[None] - rows[:, None]).abs() <= LOCAL_FRAMES).float()
    loss = 0.
    for block in model.encoder.blocks:
        q, k = block.attn.asked
        weights = F.softmax((q[:, :, rows] @ k).float(), -1)
        loss = loss - torch.log((weights * near).sum(-1) + 1e-3).mean()
    return loss / len(model.encoder.blocks)


def losses(model, batch, bf16):
    """Returns the parts of the loss by name, and `right`, the share of correct words when the words before are given."""
    device = batch["mel"].device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
        states = model.encoder(batch["mel"], batch["offset"])
        hidden = model.decoder(batch["read"], states)
    scored = batch["weight"].sum(-1) > 0
    choices, weight = batch["write"][scored], batch["weight"][scored]
    log_probs = F.log_softmax(model.logits(hidden[scored]), -1)
    frames = states.shape[1]
    parts = dict(
        text=-(log_probs.gather(1, choices) * weight).sum() / weight.sum(), ctc=_word_ctc(model, states, batch),
        frame_words=_frame_words(model, states, batch), phones=_phonemes(model, batch), guided=_guided_attention(model, batch, frames),
        local=_local_attention(model, frames, device),
    )
    is_word = (choices[:, 0] < len(model.tokens.words)) & (weight[:, 0] == 1)
    parts["right"] = ((log_probs.argmax(-1) == choices[:, 0]) & is_word).sum() / is_word.sum().clamp(min=1)
    return {name: part for name, part in parts.items() if part is not None}


def total(parts, is_early):
    """Returns the weighted sum that training minimises."""
    weights = dict(text=1., ctc=.3, frame_words=.3, phones=.2, guided=.8, local=.4)
    if is_early:
        weights.update(ctc=.6, frame_words=1., phones=.4, guided=.3)
    return sum(weight * parts[name] for name, weight in weights.items() if name in parts)
