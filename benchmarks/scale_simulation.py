"""An evaluation on many more cores than there are here, played with the parts that were measured of one.

A driver handles one message after the other; there is a network card of the head node, nodes that keep modules by their
content, and workers that ask, fetch, compile and answer.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from mlgo_gym.scheduling.ray_cluster import MESSAGE_SECONDS

MEGABYTE = 1e6
PACES_EVERY = 20
"""The median of the paces is taken now and then alone."""


@dataclass(frozen=True)
class Parts:
    """What was measured, per item.

    Attributes:
        message_seconds: processor time of the driver for a message to a worker and its answer.
        item_seconds: and for each item in it, without its module, with its result on disk.
        wait_seconds_per_worker: and to see who has a message, for each worker that is waited for; whoever has one by
            then is served without another look.
        ship_seconds: more of it for a module that is sent for the first time, beside the bytes.
        ship_seconds_per_mb: and for its bytes.
        round_trip_seconds: from an idle worker's answer to its next item, wall clock.
        worker_seconds: processor time of a worker for an item, beside what it does.
        get_mb_per_second: how fast a worker reads from the object store of its machine.
        put_mb_per_second: how fast the driver writes to it.
        sizes: bytes of packed modules.
        clang_seconds: processor time of an episode and its share of the baseline, beside the bytes.
        clang_seconds_per_mb: and for the bytes of its module.
    """

    message_seconds: float
    item_seconds: float
    wait_seconds_per_worker: float
    ship_seconds: float
    ship_seconds_per_mb: float
    round_trip_seconds: float
    worker_seconds: float
    get_mb_per_second: float
    put_mb_per_second: float
    sizes: list[int]
    clang_seconds: float
    clang_seconds_per_mb: float


@dataclass(frozen=True)
class Cluster:
    """What is simulated.

    Attributes:
        cores: the workers, each on a core.
        cores_per_node: so many share a machine, and what was sent to it.
        network_mb_per_second: what the head node sends, all together.
        latency_seconds: of a message between machines, there or back.
        policies: how many episodes each module has.
        slower: how much slower these cores are than those that were measured on.
    """

    cores: int
    cores_per_node: int = 16
    network_mb_per_second: float = 1250.0
    latency_seconds: float = 0.0005
    policies: int = 1
    slower: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What came of a simulation.

    Attributes:
        seconds: how long all of it took.
        busy: the part of the workers' time in which they compiled.
        driver: the part of the time in which the driver was busy.
        network: that of the head node's network.
        gigabytes: what it sent.
    """

    seconds: float
    busy: float
    driver: float
    network: float
    gigabytes: float


def simulate(parts: Parts, cluster: Cluster, modules: int, seed: int = 0) -> Outcome:
    """Play an evaluation: the largest modules first, whoever asks gets the next, all policies of a module in a row.

    Driver and network serve in the order of asking. The driver looks who has asked, and serves those before it looks
    again. A worker asks again when its answer is on its way.
    """
    chance = random.Random(seed)
    sizes = sorted((chance.choice(parts.sizes) for _ in range(modules)), reverse=True)
    waiting: Iterator[tuple[int, int]] = (
        (number, size) for number, size in enumerate(sizes) for _ in range(cluster.policies)
    )
    nodes = -(-cluster.cores // cluster.cores_per_node)
    there: list[set[int]] = [set() for _ in range(nodes)]
    driver_free = network_free = driver_busy = network_busy = computed = end = sent = 0.0
    last_packed = -1
    looked = -1.0
    left, paces = modules * cluster.policies, deque[float](maxlen=1000)
    # Nobody is given more than one item before it is known how long they take.
    together, answers, told = 1, 0, list[tuple[float, float]]()
    # When a worker's message reaches the driver, and which worker.
    asking = [(cluster.latency_seconds, worker) for worker in range(cluster.cores)]
    heapq.heapify(asking)
    while asking:
        at, worker = heapq.heappop(asking)
        while told and told[0][0] <= at:
            paces.append(heapq.heappop(told)[1])
        if at > looked:
            look = 2 * parts.wait_seconds_per_worker * cluster.cores
            driver_busy += look
            driver_free = looked = max(at, driver_free) + look
        begun = max(at, driver_free)
        if answers % PACES_EVERY == 0 and paces:
            together = 1 + int(MESSAGE_SECONDS * cluster.cores / statistics.median(paces))
        answers += 1
        given = list(islice(waiting, max(1, min(together, left // (2 * cluster.cores)))))
        left -= len(given)
        if not given:
            end = max(end, begun)
            continue
        node = worker // cluster.cores_per_node
        cost, took, ready = parts.message_seconds, 0.0, 0.0
        for number, size in given:
            megabytes = size / MEGABYTE
            cost += parts.item_seconds
            if number != last_packed:
                cost += parts.ship_seconds + parts.ship_seconds_per_mb * megabytes
                last_packed = number
            if number not in there[node]:
                there[node].add(number)
                transfer = megabytes / cluster.network_mb_per_second
                network_free = max(begun + cost, network_free) + transfer
                network_busy += transfer
                sent += megabytes
                took += megabytes / parts.get_mb_per_second
                ready = network_free
            seconds = (parts.clang_seconds + parts.clang_seconds_per_mb * megabytes) * cluster.slower
            computed += seconds
            took += parts.worker_seconds + seconds
        driver_free = begun + cost
        driver_busy += cost
        heapq.heappush(told, (driver_free + took, took / len(given)))
        ready = max(driver_free, ready) + cluster.latency_seconds
        heapq.heappush(asking, (ready + took + cluster.latency_seconds, worker))
    return Outcome(end, computed / (end * cluster.cores), driver_busy / end, network_busy / end, sent / 1000)
