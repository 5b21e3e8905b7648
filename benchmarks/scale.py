"""What a run on many machines costs: its parts, measured here, and a simulation of many more cores than there are here.

    python -m benchmarks.scale measure --json docs/results/scale.json
    python -m benchmarks.scale simulate --parts docs/results/scale.json

`measure` takes the parts apart on a Ray cluster of two nodes of this machine: an item that does nothing, with a module
that is sent along and without; the object store's speed; what the driver's process spends on each result; and what
episodes of real modules take of a processor. Processor time is quoted wherever the machine has other work.

`simulate` plays an evaluation with those parts, as `benchmarks.scale_simulation` says.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import resource
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.scale_simulation import MEGABYTE, Cluster, Parts, simulate
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.shipping import pack_module
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.scheduling import Abroad, Backlog, EachAlone, ray_cluster, workers
from mlgo_gym.scheduling.shelf import Shelf, digest_of

ITEMS = 400
CORPORA = "zstd,brotli,box2d-py,lz4,sentencepiece"
"""What sizes are drawn from, and episodes are played on."""


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Start a cluster of nodes with a processor each, and give its address."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="mlgo-scale-", dir="/tmp")
    head = {"num_cpus": 1, "temp_dir": folder, "object_store_memory": 400 << 20, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            started.add_node(num_cpus=1, object_store_memory=400 << 20)
        yield started.address
    finally:
        started.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _idle(room: int, shelf: Shelf) -> EachAlone[int, float]:
    del room, shelf
    return EachAlone(lambda _: time.process_time())


def _never(room: int) -> EachAlone[int, float]:
    raise AssertionError(room)


def items(address: str, size: int, count: int, interval: float = 0.0) -> tuple[float, float, float]:
    """Run items that do nothing, each with so many bytes of its own, with a message for each, or one in an interval.

    Returns:
        Seconds of an item by the clock, of the driver's processor, and of a worker's.
    """
    content = bytes(random.Random(0).randbytes(size))

    def pack(name: str) -> dict[str, bytes]:
        return {"module.bc": content + name.encode()}

    ray_cluster.MESSAGE_SECONDS = interval
    abroad = Abroad(_idle, str, pack if size else _nothing)
    with workers(_never, 1, ray=address, abroad=lambda: abroad) as running:
        list(running.run(Backlog(range(20))))
        wall, processor = time.perf_counter(), time.process_time()
        results = [
            float(result) for _, result in running.run(Backlog(range(20, 20 + count))) if isinstance(result, float)
        ]
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return wall / count, processor / count, (max(results) - min(results)) / (count - 1)


def waiting(address: str, count: int = 1000, times: int = 50) -> float:
    """Return the driver's processor seconds to see which of so many messages are there, for each of them."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:

        class Silent:
            def speak(self) -> None:
                threading.Event().wait()

        silent: Any = ray.remote(Silent)
        actor = silent.remote()
        references = [actor.speak.remote() for _ in range(count)]
        begun = time.process_time()
        for _ in range(times):
            ray.wait(references, num_returns=1, timeout=0)
        taken = time.process_time() - begun
        ray.kill(actor)
        return taken / times / count
    finally:
        ray.shutdown()


def _nothing(_: str) -> dict[str, bytes]:
    return {}


def store_speed(address: str, megabytes: int = 64, times: int = 5) -> tuple[float, float]:
    """Return how many MB a second go into the object store, and come out of it in another process."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:

        def read(reference: list[Any]) -> float:
            begun = time.perf_counter()
            value = ray.get(reference[0])
            copied = bytes(memoryview(value["module.bc"]))
            assert len(copied) == len(value["module.bc"])
            return time.perf_counter() - begun

        reading = ray.remote(read)
        puts, gets = [], []
        for number in range(times):
            value = {"module.bc": bytes([number]) * (megabytes * 1_000_000)}
            begun = time.perf_counter()
            reference = ray.put(value)
            puts.append(time.perf_counter() - begun)
            gets.append(ray.get(reading.remote([reference])))
        return megabytes / statistics.median(puts), megabytes / statistics.median(gets)
    finally:
        ray.shutdown()


def episodes(corpus: Corpus, count: int) -> tuple[list[float], list[int]]:
    """Return the processor seconds of episodes of as many modules, with that of their baselines, and their bytes."""
    seconds, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        # Nothing is known here of plain compiles.
        os.environ["MLGO_CACHE"] = str(Path(folder, "cache"))
        evaluation = Evaluation(
            "mlgo/Inline-v0", policies=["inline-os-plain"], corpus=corpus, limit=count, output=Path(folder, "results")
        )
        with evaluation:
            before = _processor()
            for result in evaluation.run(1, 1):
                now = _processor()
                seconds.append(now - before)
                sizes.append(corpus.size(result.module))
                before = now
    return seconds, sizes


def _processor() -> float:
    children, ours = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    return children.ru_utime + children.ru_stime + ours.ru_utime + ours.ru_stime


def on_disk(count: int = 300) -> float:
    """Return the driver's processor seconds for a result that is made JSON, written and flushed, and scheduled."""
    from mlgo_gym.evaluation.episode_result import EpisodeResult
    from mlgo_gym.storage.json_lines import JsonLines

    measures = dict.fromkeys(("text_size", "llvm_size", "object_size"), (1000.0, 1010.0))
    with tempfile.TemporaryDirectory() as folder, JsonLines(Path(folder, "lines")) as lines:
        begun = time.process_time()
        for number in range(count):
            lines.append(EpisodeResult("p", f"m{number}", "x", "done", measures, 0.1, 100, actions="a" * 120).to_json())
        return (time.process_time() - begun) / count


def measure(names: str, count: int) -> Parts:
    """Measure the parts."""
    corpus = open_corpus(names, toolchain=find_toolchain("bundled"))
    sizes = [sum(map(len, pack_module(corpus, name).values())) for name in corpus.names]
    begun = time.process_time()
    for name in corpus.names[:100]:
        digest_of(pack_module(corpus, name))
    packed = time.process_time() - begun
    packed_mb = sum(sizes[:100]) / MEGABYTE
    with cluster(1) as address:
        bare, small, large = (items(address, size, ITEMS) for size in (0, 10_000, 510_000))
        together = items(address, 0, 10 * ITEMS, 0.5)
        put, get = store_speed(address)
        wait = waiting(address)
    per_mb = max(0.0, (large[1] - small[1]) / 0.5)
    seconds, bytes_ = episodes(corpus, count)
    least = min(seconds)
    slope = sum(each - least for each in seconds) / (sum(bytes_) / MEGABYTE)
    return Parts(
        message_seconds=max(0.0, bare[1] - together[1]),
        item_seconds=together[1] + on_disk(),
        wait_seconds_per_worker=wait,
        ship_seconds=max(0.0, small[1] - bare[1] - 0.01 * per_mb),
        ship_seconds_per_mb=per_mb + packed / packed_mb,
        round_trip_seconds=bare[0],
        worker_seconds=together[2],
        get_mb_per_second=get,
        put_mb_per_second=put,
        sizes=sizes,
        clang_seconds=least,
        clang_seconds_per_mb=slope,
    )


def print_simulation(parts: Parts, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Simulate clusters of more and more cores, and print a row for each."""
    print(f"{given.modules} modules, {given.policies} policies; {given.price} a core hour")
    print(
        f"{'cores':>6} {'hours':>8} {'core hours':>10} {'cost':>9} {'compiling':>9} {'driver':>7} {'network':>8} "
        f"{'sent, GB':>9}"
    )
    rows = []
    for cores in given.cores:
        outcome = simulate(parts, Cluster(cores, policies=given.policies, slower=given.slower), given.modules)
        hours = outcome.seconds / 3600
        cost = hours * cores * given.price
        print(
            f"{cores:6} {hours:8.3f} {hours * cores:10.1f} {cost:9.2f} {outcome.busy:9.1%} {outcome.driver:7.1%} "
            f"{outcome.network:8.2%} {outcome.gigabytes:9.1f}"
        )
        rows.append({"cores": cores, "hours": hours, "cost": cost, **outcome.__dict__})
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Measure or simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--corpora", default=CORPORA)
    measuring.add_argument("--episodes", type=int, default=40)
    measuring.add_argument("--json", type=Path, required=True)
    simulating = commands.add_parser("simulate")
    simulating.add_argument("--parts", type=Path, required=True)
    simulating.add_argument("--modules", type=int, default=100_000)
    simulating.add_argument("--largest", type=float, default=float("inf"), help="leave out larger ones, in bytes")
    simulating.add_argument("--policies", type=int, default=1)
    simulating.add_argument("--cores", type=int, nargs="+", default=[100, 300, 1000, 2000, 4000, 8000])
    simulating.add_argument("--price", type=float, default=0.04, help="of a core for an hour")
    simulating.add_argument("--slower", type=float, default=1.0)
    simulating.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    if given.command == "measure":
        parts = measure(given.corpora, given.episodes)
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(parts.__dict__) + "\n")
        for name, value in parts.__dict__.items():
            print(f"{name:22} {value:.6g}" if isinstance(value, float) else f"{name:22} {len(value)} modules")
        print(f"{'bytes of a module':22} {statistics.mean(parts.sizes):.0f} mean, {statistics.median(parts.sizes):.0f}")
    else:
        parts = Parts(**json.loads(given.parts.read_text()))
        parts = replace(parts, sizes=[size for size in parts.sizes if size <= given.largest])
        rows = print_simulation(parts, given)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
