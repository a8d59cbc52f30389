"""The three pools once more, as plain processes of a discrete-event library.

Written from the words of the design and the paper alone, every stage and every place of the
buffer a resource of its own: what ``explorer.serving.simulation`` is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import simpy

from explorer.config.scenario import Scenario


@dataclass
class Numbers:
    """Counts of the plan and the policy; ``places`` is None without a bound, 0 for no buffer."""

    pools: int
    lines: int
    prefill_stages: int
    micro_batch_prefill: int
    micro_batch_decode: int
    decode_stages: int
    places: int | None
    waiting: float
    by_length: bool = False


def numbers_of(scenario: Scenario, pools: int) -> Numbers:
    """Return the counts of a scenario's plan in so many pools; its buffer is given as a number."""
    plan, simulation = scenario.plan, scenario.simulation
    capacity = simulation.buffer_micro_batches * plan.micro_batch_decode
    return Numbers(
        pools=pools,
        lines=plan.dp_prefill,
        prefill_stages=plan.pp_prefill,
        micro_batch_prefill=plan.micro_batch_prefill,
        micro_batch_decode=plan.micro_batch_decode,
        decode_stages=plan.pp_decode,
        places={"bounded": capacity, "unbounded": None, "no_buffer": 0}[simulation.policy],
        waiting=simulation.waiting_seconds,
        by_length=simulation.grouping == "by_length",
    )


@dataclass
class Seen:
    """When things happened to one request."""

    arrival: float
    prompt: int
    output: int
    prefill: float = -1.0
    taken: float = -1.0
    first: float = -1.0
    start: float = -1.0
    end: float = -1.0


@dataclass
class Group:
    """A prefill micro-batch."""

    requests: list[Seen]
    taken: simpy.Event
    tail: float = 0.0


@dataclass
class Side:
    """One pool."""

    number: int
    stages: list[list[simpy.Resource]]
    finished: simpy.Store
    places: simpy.Container | None
    slots: simpy.Container
    buffer: list[Seen] = field(default_factory=list)
    in_prefill: int = 0
    flying: list[float] = field(default_factory=list)
    ring_changed: simpy.Event | None = None


class Model:
    """Runs requests (arrival, prompt, output) through the pools."""

    def __init__(self, numbers, requests, prefill_time, decode_time):
        self.n = numbers
        self.env = simpy.Environment()
        self.requests = [Seen(*request) for request in requests]
        self.prefill_time, self.decode_time = prefill_time, decode_time
        self.queue, self.cut = [], []
        self.ended = False
        self.position = 0
        self.batch = numbers.decode_stages * numbers.micro_batch_decode
        self.changed = self.env.event()
        self.free = simpy.Store(self.env)
        self.most_ahead = 0
        self.sides = [self._side(number) for number in range(numbers.pools)]
        for line in range(numbers.lines):
            for side in self.sides:
                self.free.put((side, line))
        self.env.process(self._arrive())
        self.env.process(self._dispatch())
        self.env.run()

    def _side(self, number):
        n, env = self.n, self.env
        stages = [[simpy.Resource(env) for _ in range(n.prefill_stages)] for _ in range(n.lines)]
        places = None
        if n.places is not None:
            capacity = n.places or n.micro_batch_decode
            places = simpy.Container(env, capacity=capacity, init=n.places)
        slots = simpy.Container(env, capacity=n.decode_stages, init=n.decode_stages)
        side = Side(number, stages, simpy.Store(env), places, slots)
        side.ring_changed = env.event()
        env.process(self._store(side))
        env.process(self._decode(side))
        return side

    def _tell(self):
        old, self.changed = self.changed, self.env.event()
        old.succeed()

    def _arrive(self):
        for request in self.requests:
            if request.arrival > self.env.now:
                yield self.env.timeout(request.arrival - self.env.now)
            self.queue.append(request)
            self.ended = request is self.requests[-1]
            self._tell()

    def _dispatch(self):
        """Give each free line the next micro-batch, the one that has been free longest first."""
        n = self.n
        while True:
            side, line = yield self.free.get()
            if not self.cut:
                most = self.batch
                if not n.by_length:
                    most = min(n.micro_batch_prefill, self.batch - self.position)
                yield from self._gather(most)
            if not self.cut:
                return
            requests = self.cut.pop(0)
            side.in_prefill += 1
            self.env.process(self._prefill(side, line, Group(requests, self.env.event())))
            self._tell()

    def _gather(self, most):
        n = self.n
        while not self.queue:
            if self.ended:
                return
            yield self.changed
        deadline = self.queue[0].arrival + n.waiting
        while len(self.queue) < most and self.env.now < deadline and not self.ended:
            yield self.changed | self.env.timeout(deadline - self.env.now)
        requests, self.queue = self.queue[:most], self.queue[most:]
        if n.by_length:
            requests.sort(key=lambda request: request.prompt)
        self.position = (self.position + len(requests)) % self.batch
        size = n.micro_batch_prefill
        self.cut += [requests[first : first + size] for first in range(0, len(requests), size)]

    def _prefill(self, side, line, group):
        env, stages = self.env, side.stages[line]
        prompt = max(request.prompt for request in group.requests)
        seconds, group.tail = self.prefill_time(len(group.requests), prompt)
        for request in group.requests:
            request.prefill = env.now
        held = stages[0].request()
        yield held
        for number, stage in enumerate(stages):
            yield env.timeout(seconds)
            if number + 1 == len(stages):
                side.finished.put(group)
                yield group.taken
            else:
                following = stages[number + 1].request()
                yield following
            stage.release(held)
            if number == 0:
                self.free.put((side, line))
            if number + 1 < len(stages):
                held = following

    def _store(self, side):
        while True:
            group = yield side.finished.get()
            for request in group.requests:
                if side.places is not None:
                    yield side.places.get(1)
                request.taken = self.env.now
                request.first = self.env.now + group.tail
                side.buffer.append(request)
                self.most_ahead = max(self.most_ahead, len(side.buffer))
                self._tell()
            side.in_prefill -= 1
            group.taken.succeed()
            self._tell()

    def _decode(self, side):
        n, env = self.n, self.env
        while True:
            yield side.slots.get(1)
            if n.places == 0:
                yield side.places.put(n.micro_batch_decode)
            while True:
                if len(side.buffer) >= n.micro_batch_decode:
                    break
                if side.buffer:
                    deadline = side.buffer[0].taken + n.waiting
                    if env.now >= deadline:
                        break
                    if self.ended and not (self.queue or self.cut or side.in_prefill):
                        break
                    wait = env.timeout(deadline - env.now) if deadline < float("inf") else None
                    yield self.changed | wait if wait is not None else self.changed
                else:
                    yield self.changed
            count = min(n.micro_batch_decode, len(side.buffer))
            requests, side.buffer = side.buffer[:count], side.buffer[count:]
            if n.places == 0:
                if side.places.level:
                    yield side.places.get(side.places.level)
            elif side.places is not None:
                yield side.places.put(count)
            env.process(self._go_round(side, requests))

    def _go_round(self, side, requests):
        env = self.env
        ready = max(request.first for request in requests)
        if ready > env.now:
            yield env.timeout(ready - env.now)
        outputs = sorted({request.output for request in requests})
        own = 0.0
        if outputs[-1] > 1:
            prompt = max(request.prompt for request in requests)
            own = self.decode_time(len(requests), prompt, outputs[-1])
        for request in requests:
            request.start = env.now
        if own:
            side.flying.append(own)
            self._ring(side)
        steps = 0.0
        for output in outputs:
            while steps < output - 1:
                pace, since = self.n.decode_stages * max(side.flying), env.now
                change = side.ring_changed
                done = env.timeout((output - 1 - steps) * pace)
                yield done | change
                steps = output - 1 if done.processed else steps + (env.now - since) / pace
            for request in requests:
                if request.output == output:
                    request.end = env.now if output > 1 else request.first
        if own:
            side.flying.remove(own)
            self._ring(side)
        side.slots.put(1)
        self._tell()

    def _ring(self, side):
        old, side.ring_changed = side.ring_changed, self.env.event()
        old.succeed()
