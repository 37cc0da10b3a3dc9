"""Trains the model along schedule.py, and continues where it was stopped.

    python3 train.py FOLDER [--scale 1.0] [--threads 1] [--loaders 0] [--until STEP] [--device cpu] [--batch 1]

FOLDER/checkpoint.pt has the whole state. It is replaced as a whole every few minutes and at the end, so the process
may be killed at any moment. FOLDER/log.tsv gets a line every 50 steps. The average of the weights is the model.
"""
import argparse
import os
import time

import torch
from torch.utils.data import DataLoader

import grammar
import losses as L
import speech
from model import CONFIG, new_model
from schedule import Schedule
from windows import Batches, WindowMaker, collate

SAVE_SECONDS = 150
LOG_STEPS = 50
CHECK_STEPS = 500
SEED = 1
LOGGED = ("text", "ctc", "frame_words", "phones", "guided", "local", "right")


class Average:
    """The exponential moving average of the weights."""

    DECAY = .998

    def __init__(self, model):
        self.weights, self.updates = {k: v.clone() for k, v in model.state_dict().items()}, 0

    def update(self, model):
        """Adds the weights after a step. Early steps have less weight."""
        self.updates += 1
        decay = min(self.DECAY, self.updates / (self.updates + 20))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                if value.dtype.is_floating_point:
                    self.weights[name].mul_(decay).add_(value, alpha=1 - decay)


class Training:
    """The state of a run: model, optimizer, average and the number of steps done."""

    def __init__(self, folder, schedule, device):
        torch.manual_seed(1234)
        self.path, self.device, self.schedule = os.path.join(folder, "checkpoint.pt"), device, schedule
        self.words = grammar.vocabulary()
        self.model = new_model(self.words).to(device)
        matrices = [p for p in self.model.parameters() if p.ndim >= 2]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [dict(params=matrices, weight_decay=.02), dict(params=others, weight_decay=0.)]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(.9, .98), eps=1e-8)
        self.average, self.steps = Average(self.model), 0
        if os.path.exists(self.path):
            self._load()

    def _load(self):
        saved = torch.load(self.path, map_location=self.device)
        if saved["words"] != self.words:
            raise SystemExit(f"{self.path} was trained for another vocabulary: move it away to start again")
        self.model.load_state_dict(saved["raw"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.average.weights, self.average.updates, self.steps = saved["average"], saved["updates"], saved["steps"]

    def save(self):
        """Replaces the checkpoint."""
        state = dict(average=self.average.weights, updates=self.average.updates, raw=self.model.state_dict(),
                     optimizer=self.optimizer.state_dict(), steps=self.steps, words=self.words, config=CONFIG)
        torch.save(state, self.path + ".part")
        os.replace(self.path + ".part", self.path)

    def step(self, batch, bf16):
        """Runs one step of the optimizer. Returns the parts of its loss."""
        torch.manual_seed(self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.learning_rate(self.steps)
        batch = {name: value.to(self.device) for name, value in batch.items()}
        parts = L.losses(self.model, batch, bf16)
        self.optimizer.zero_grad()
        L.total(parts, self.schedule.stage_at(self.steps).is_early).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.)
        self.optimizer.step()
        self.average.update(self.model)
        self.steps += 1
        return {name: float(part.detach()) for name, part in parts.items()}

    def check(self, batches, bf16):
        """Evaluates the averaged model on held-out voices and sentences. Returns text for the log."""
        current = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(self.average.weights)
        found = []
        with torch.no_grad():
            for seconds, batch in batches:
                batch = {name: value.to(self.device) for name, value in batch.items()}
                parts = L.losses(self.model, batch, bf16)
                found.append(f"{seconds}s right {float(parts['right']):.3f} ctc {float(parts.get('ctc', 0)):.2f}")
        self.model.load_state_dict(current)
        return "held out: " + ", ".join(found)


def held_out_batches(model):
    """Returns windows of 5 and 30 s with the tests' voices and sentences, always the same."""
    maker = WindowMaker(model.tokens, speech.pools(speech.HELD_OUT), speech.read_phones(), CONFIG["audio_ctx"], 4242)
    return [(seconds, collate([maker.window(seconds, 1.) for _ in range(count)], model.tokens, CONFIG["text_ctx"] - 8))
            for seconds, count in ((5, 32), (30, 6))]


def run(options):
    """Trains to the schedule's end or `--until`."""
    torch.set_num_threads(options.threads)
    os.makedirs(options.folder, exist_ok=True)
    schedule = Schedule(options.scale, options.batch)
    training = Training(options.folder, schedule, torch.device(options.device))
    tokens = training.model.tokens
    batches = Batches(schedule, tokens, speech.pools(speech.TRAINING), CONFIG["audio_ctx"], CONFIG["text_ctx"], SEED)
    end = min(schedule.steps, options.until or schedule.steps)
    steps = range(training.steps, end)
    checks = held_out_batches(training.model)
    bf16 = not options.fp32
    begun = saved = time.time()
    sums = dict.fromkeys(LOGGED, 0.)
    with open(os.path.join(options.folder, "log.tsv"), "a", buffering=1) as log:
        for batch in DataLoader(batches, batch_size=None, sampler=steps, num_workers=options.loaders):
            for name, value in training.step(batch, bf16).items():
                sums[name] += value
            done = training.steps
            if done % LOG_STEPS == 0:
                rate = (done - steps.start) / (time.time() - begun)
                line = "\t".join(f"{name} {sums[name] / LOG_STEPS:.3f}" for name in LOGGED)
                log.write(f"{done}/{schedule.steps}\t{schedule.stage_at(done - 1).name}\t{rate:.2f} steps/s\t{line}\n")
                sums = dict.fromkeys(LOGGED, 0.)
            if done % CHECK_STEPS == 0:
                log.write(f"{done}\t{training.check(checks, bf16)}\n")
            if time.time() - saved > SAVE_SECONDS:
                training.save()
                saved = time.time()
    training.save()
    print(f"{training.steps} of {schedule.steps} steps; {training.check(checks, bf16)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--scale", type=float, default=1., help="multiplies the steps of every stage")
    parser.add_argument("--batch", type=int, default=1, help="multiplies the windows of every batch (for a GPU)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loaders", type=int, default=0, help="processes that make batches beside the training")
    parser.add_argument("--until", type=int, help="stop at this step of the schedule")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fp32", action="store_true", help="without bfloat16")
    run(parser.parse_args())
