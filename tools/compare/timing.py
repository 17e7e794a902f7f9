# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times launches on a GPU, each after an idle gap and with a cold L2 cache."""

import random
import statistics
import time

import torch

GAP_SECONDS, FLUSH_BYTES, NUM_FLUSHES = 0.006, 1 << 30, 3


def describe_machine():
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "date": time.strftime("%Y-%m-%d"),
    }


class Clock:
    def __init__(self):
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
        self.random = random.Random(0)

    def time(self, call):
        """Seconds on the GPU. Back to back, power limits would slow down whatever comes later; hence the gap. What
        Python takes to launch passes while the flush runs; if it took longer it would be counted, and the call is
        timed again with a longer flush."""
        begin_flush, begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        for num_flushes in (NUM_FLUSHES, 4 * NUM_FLUSHES, 16 * NUM_FLUSHES):
            torch.cuda.synchronize()
            time.sleep(GAP_SECONDS)
            start = time.perf_counter()
            begin_flush.record()
            for _ in range(num_flushes):
                self.flush.zero_()
            begin.record()
            call()
            end.record()
            launched = time.perf_counter() - start
            end.synchronize()
            if launched < begin_flush.elapsed_time(begin) * 1e-3:
                break
        return begin.elapsed_time(end) * 1e-3

    def copy_speed(self):
        """Bytes a second that a copy of half of the flushed memory reads and writes."""
        source, target = self.flush.chunk(2)
        return 2 * source.numel() / statistics.median(self.time(lambda: target.copy_(source)) for _ in range(5))

    def compare(self, calls, repeats):
        """The times of several calls that take turns, each time in another order."""
        times = {name: [] for name in calls}
        names = list(calls)
        for _ in range(repeats):
            self.random.shuffle(names)
            for name in names:
                times[name].append(self.time(calls[name]))
        return times


def summarize(seconds):
    """Median, and the distance of the quartiles relative to it."""
    median = statistics.median(seconds)
    if len(seconds) < 2:
        return median, 0.0
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive")
    return median, (quartiles[2] - quartiles[0]) / median
