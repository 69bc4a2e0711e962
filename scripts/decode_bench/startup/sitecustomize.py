"""Every Python process of a benchmarked engine starts with the stand-ins and the probe in place.

Python imports this module by its name in each process, so the scheduler that sglang spawns has them as well.
"""

import os

import bench_probe
import bench_stand_ins

bench_stand_ins.install()
if record := os.environ.get(bench_probe.RECORD):
    bench_probe.install(record)
