"""Golden figures of DeepSpeed's dynamic loss scaler: the scale before each step as a power of two, for given overflows."""

import math
import random
from unittest import mock

from deepspeed.runtime.fp16 import loss_scaler

from golden_json import write

NUM_STEPS = 80


def case(power: int, window: int, hysteresis: int, consecutive: bool, minimum: float, share: float) -> dict:
    """One run; ends early where the scaler gives up."""
    rng = random.Random(f"{power} {window} {hysteresis} {consecutive} {minimum} {share}")
    scaler = loss_scaler.DynamicLossScaler(
        init_scale=2.0**power,
        scale_window=window,
        min_scale=minimum,
        delayed_shift=hysteresis,
        consecutive_hysteresis=consecutive,
    )
    powers, overflows, exhausted = [], [], False
    while len(powers) < NUM_STEPS and not exhausted:
        powers.append(int(math.log2(scaler.loss_scale)))
        overflows.append(rng.random() < share)
        exhausted = overflows[-1] and scaler.cur_scale == minimum and scaler.cur_hysteresis == 1
        if not exhausted:
            # It asks for its rank only to decide who logs.
            with mock.patch.object(loss_scaler.dist, "get_rank", lambda: 1):
                scaler.update_scale(overflows[-1])
    return {
        "initial_scale_power": power,
        "loss_scale_window": window,
        "hysteresis": hysteresis,
        "consecutive_hysteresis": consecutive,
        "min_loss_scale": minimum,
        "overflows": overflows,
        "scale_powers": powers,
        "exhausted": exhausted,
    }


def make() -> None:
    """Writes loss_scales.json."""
    cases = [
        case(power, window, hysteresis, consecutive, 0.25 if power == 2 else 1.0, share)
        for power in (2, 16)
        for window in (1, 7)
        for hysteresis in (1, 2, 3)
        for consecutive in (False, True)
        for share in (0.05, 0.5, 0.9)
    ]
    write("loss_scales.json", {"cases": cases})
