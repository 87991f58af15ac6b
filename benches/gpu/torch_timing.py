"""Times of work on a GPU by CUDA's events, for the programs that ask PyTorch."""

import statistics

import torch


def median_ms(work, num_warm=3, num_calls=10):
    """The median of several calls, after some that choose algorithms and warm the clock."""
    for _ in range(num_warm):
        work()
    times = []
    for _ in range(num_calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)
