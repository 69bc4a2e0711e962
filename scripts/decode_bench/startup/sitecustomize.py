"""Install the stubs and the probe in every Python process of a benchmarked engine.

Python imports this module by its name in each process, also in the scheduler that sglang spawns.
"""

import os
from pathlib import Path

import bench_end_tokens
import bench_grammar
import bench_kernels
import bench_probe
import bench_reach
import bench_stand_ins
import bench_weights

bench_stand_ins.install()
bench_weights.install()
if record := os.environ.get(bench_probe.RECORD):
    bench_probe.install(record)
    bench_reach.install(Path(os.environ[bench_reach.PACKAGE]), os.environ[bench_reach.REACHED])
bench_probe.on_import(bench_kernels.ATTENTION, bench_kernels.instrument)
bench_probe.on_import(bench_end_tokens.PENALTY, bench_end_tokens.instrument)
bench_probe.on_import(bench_end_tokens.PARAMETERS, bench_end_tokens.allow)
if os.environ.get(bench_grammar.GRAMMAR):
    bench_probe.on_import(bench_grammar.MANAGER, bench_grammar.instrument)
