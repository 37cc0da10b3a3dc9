"""The course of training, counted in steps. The machine only changes how long it takes."""
import math
from dataclasses import dataclass

WARMUP = 100


@dataclass(frozen=True)
class Stage:
    """Learning rate from `lr_start` to `lr_end` along a half cosine. Shapes are (seconds, windows in a batch)."""

    name: str
    steps: int
    lr_start: float
    lr_end: float
    shapes: tuple
    light: float = .6
    is_early: bool = False  # the encoder's own losses have more weight, guided attention less


# Short windows come first, at random places of the 30 s, and then longer ones in steps. A jump from 4 s to 30 s with
# the learning rate already near its end loses a third of the words again.
STAGES = (
    Stage("sounds", 5000, 2e-3, 1.5e-3, ((3, 24), (4, 18), (4, 18), (5, 14)), is_early=True),
    Stage("sentences", 1000, 1.5e-3, 1.3e-3, ((4, 18), (6, 12), (8, 9))),
    Stage("pauses", 1500, 1.3e-3, 1.1e-3, ((4, 18), (8, 9), (12, 6), (15, 5))),
    Stage("whole", 3600, 1.1e-3, 2e-5, ((4, 18), (10, 7), (20, 4), (30, 3), (30, 3))),
)


class Schedule:
    """Returns STAGES with every number of steps multiplied by `scale`."""

    def __init__(self, scale, batch=1):
        self.batch = batch
        self.stages, self.first, self.steps = [], [], 0
        for stage in STAGES:
            shapes = tuple((seconds, count * batch) for seconds, count in stage.shapes)
            steps = max(2, round(stage.steps * scale))
            self.first.append(self.steps)
            self.stages.append(Stage(stage.name, steps, stage.lr_start, stage.lr_end, shapes, stage.light, stage.is_early))
            self.steps += steps

    def _index(self, step):
        return max(i for i, first in enumerate(self.first) if first <= step)

    def stage_at(self, step):
        """Returns the stage to which a step belongs."""
        return self.stages[self._index(step)]

    def learning_rate(self, step):
        """Returns the learning rate of a step, with a warm-up over the first steps."""
        i = self._index(step)
        stage = self.stages[i]
        done = (step - self.first[i]) / stage.steps
        rate = stage.lr_end + (stage.lr_start - stage.lr_end) * .5 * (1 + math.cos(math.pi * done))
        return rate * min(1, (step + 1) / min(WARMUP, self.steps))
