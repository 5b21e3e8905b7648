"""Several sub-environments whose episodes are functions of one compile.

A compile comes to one function after the other, so that one of them waits for an action at a time; what each one's
decisions moved is known when the compile ends, and so all of their episodes end then.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import Any

from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.episode.function_endings import function_endings
from mlgo_gym.episode.outcome import Ending
from mlgo_gym.episode.shared_beginning import SharedBegun, begin_shared
from mlgo_gym.episode.stepper import Answer, Stepper
from mlgo_gym.errors import ActionError, MlgoError, NoDecisionError
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import WorkUnderWay
from mlgo_gym.tasks.task import SIZE_METRICS
from mlgo_gym.vector.compile_under_way import CompileUnderWay
from mlgo_gym.vector.sub_environment import Delivery


class _State(Enum):
    """What a sub-environment is at."""

    IDLE = auto()
    """It was never reset, or its episode is over and nothing has followed."""
    WANTING = auto()
    """It waits for the first decision of an episode."""
    DECIDING = auto()
    """Its function has a decision that waits for an action."""
    BETWEEN = auto()
    """It has answered, and waits for the function's next decision or the end of the compile."""


class FunctionSlot:
    """A sub-environment of a `FunctionGroup`; for the event loop it is as `SubEnvironment`.

    Args:
        group: the group.
        number: its number.

    Attributes:
        ready: whether there is something to deliver.
        function: the function of its episode.
        ending: how the last episode ended, until the next begins.
        stepper: None: it has none of its own.
    """

    stepper: None = None

    def __init__(self, group: FunctionGroup, number: int) -> None:
        self.number = number
        self.ready = False
        self.function: str | None = None
        self.ending: Ending | None = None
        self.state = _State.IDLE
        self.wish: str | None = None
        self.illegal = False
        self.error: MlgoError | None = None
        self._group = group

    @property
    def companions(self) -> list[int]:
        """The numbers of all that share its compile."""
        return [slot.number for slot in self._group.slots]

    @property
    def decision(self) -> Decision | None:
        """The decision that waits for an action."""
        stepper = self._group.stepper
        return stepper.decision if stepper is not None and self.state is _State.DECIDING else None

    @property
    def has_only_asked(self) -> bool:
        """Always False: its decisions are counted otherwise than those of the compile."""
        return False

    @property
    def shown(self) -> Stepper | None:
        """The compile, for `render()`."""
        return self._group.shown

    @property
    def session(self) -> Session | None:
        """The session whose descriptors tell when to `poll()`; the first of the group has it, for all."""
        return self._group.session if self is self._group.slots[0] else None

    @property
    def deadline(self) -> float:
        """When the compiler will have been silent for too long, on the monotonic clock."""
        return self._group.deadline if self is self._group.slots[0] else math.inf

    def seed(self, seed: int) -> None:
        """Seed the random generator of the group, if it is its first, and begin the order of modules anew."""
        if self is self._group.slots[0]:
            self._group.seed(seed)

    def begin(self, module: Module | None = None, function: str | None = None) -> None:
        """Want an episode, which begins when all of the group want one."""
        self._group.want(self, module, function)

    def encode(self, action: Any) -> Answer | None:
        """Return the answer to the decision that an action is, or None where any action begins the next episode.

        Raises:
            ActionError: no decision waits; or, with `strict`, the action is illegal.
        """
        if self.decision is None:
            if self.ending is not None and self._group.mode is AutoresetMode.NEXT_STEP:
                return None
            raise ActionError(f"environment {self.number} has no decision that waits for an action: reset it")
        assert self._group.stepper is not None
        try:
            return self._group.stepper.encode(action)
        except ActionError as error:
            raise ActionError(f"environment {self.number}: {error}") from None

    def act(self, answer: Answer | None) -> None:
        """Answer the decision, or, with None, want the next episode."""
        if answer is None:
            self.begin()
        else:
            self._group.answer(self, answer)

    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""
        self._group.poll()
        return self.ready

    def time_out(self) -> None:
        """End a compile that was silent for too long."""
        self._group.time_out()

    def take_error(self) -> MlgoError | None:
        """Return what it could not recover from, once."""
        error, self.error = self.error, None
        return error

    def delivery(self) -> Delivery:
        """Return what a step that is ready returns, but for the observation."""
        if self.ending is not None:
            ending = self.ending
            return Delivery(ending.reward, not ending.truncated, ending.truncated, ending.info)
        stepper = self._group.stepper
        assert stepper is not None, "nothing is ready"
        assert self.function is not None
        info = stepper.info()
        info["decision"] = stepper.episode.answered[self.function]
        info.pop("illegal_action", None)
        if self.illegal or self._group.numeric:
            info["illegal_action"] = self.illegal
        return Delivery(0.0, False, False, info)

    def close(self) -> None:
        """End the compile. Idempotent."""
        self._group.close()


class FunctionGroup(CompileUnderWay):
    """One compile at a time, and those that have a function of it each.

    It begins when all of them want an episode. A sub-environment whose function the compile does not come to, because
    what was decided before took its calls away, or for which the module has no function, waits for the next compile.

    Args:
        maker: what all sub-environments have in common.
        numbers: the numbers of the sub-environments.
        mode: what happens after an episode's end: `NEXT_STEP` or `DISABLED`.
        turn: which modules are its share, where those are taken in turn.

    Attributes:
        slots: the sub-environments.
    """

    def __init__(self, maker: EpisodeMaker, numbers: range, mode: AutoresetMode, turn: Turn) -> None:
        super().__init__()
        self.slots = [FunctionSlot(self, number) for number in numbers]
        self.mode = mode
        self._setup = maker.setup
        self._turn = turn
        self._np_random, _ = seeding.np_random(None)
        self._module: Module | None = None
        self._beginning: WorkUnderWay[SharedBegun] | None = None

    @property
    def numeric(self) -> bool:
        """Whether infos are numbers alone."""
        return self._setup.numeric

    def seed(self, seed: int) -> None:
        """Seed the random generator anew, and begin the order of modules anew."""
        self._np_random, _ = seeding.np_random(seed)
        self._turn = self._turn.restarted()

    def want(self, slot: FunctionSlot, module: Module | None, function: str | None) -> None:
        """Note that a sub-environment wants an episode, and begin a compile if now all do.

        One that is in the middle of an episode gives up the compile, and so the episodes of all others.
        """
        if slot.state in (_State.DECIDING, _State.BETWEEN):
            self._end()
            for other in self.slots:
                if other.state is not _State.WANTING:
                    other.state, other.ready, other.ending = _State.IDLE, False, None
        slot.state, slot.ready, slot.ending, slot.error = _State.WANTING, False, None, None
        slot.function, slot.wish, slot.illegal = None, function, False
        if module is not None and self._module is not None and module.name != self._module.name:
            slot.error = MlgoError(
                f"environments {self.slots[0].number} to {self.slots[-1].number} share a compile, and one module was "
                f"wanted for them; found {self._module.name!r} and {module.name!r}"
            )
            slot.state, slot.ending, slot.ready = _State.IDLE, Ending(0.0, True, {}), True
            return
        self._module = module or self._module
        if self.stepper is None and all(each.state is _State.WANTING for each in self.slots):
            self._begin()

    def _begin(self) -> None:
        module, self._module = self._module, None
        try:
            wishes = [slot.wish for slot in self.slots]
            work = begin_shared(self._setup, self._np_random, self._turn, wishes, module)
            self._beginning = WorkUnderWay(work, self._setup.settings.timeout)
        except MlgoError as error:
            self._give_up(error)
        else:
            self.poll()

    def answer(self, slot: FunctionSlot, answer: Answer) -> None:
        """Answer the decision that waits."""
        assert self.stepper is not None
        slot.state, slot.ready, slot.illegal = _State.BETWEEN, False, answer.illegal
        self.stepper.answer(answer)

    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""
        try:
            if self._beginning is not None:
                if self._beginning.poll():
                    self._begun(self._beginning.result)
            elif self.stepper is not None and self.stepper.decision is None and self.stepper.poll():
                self._settle(self.stepper)
        except MlgoError as error:
            self._give_up(error)
        return any(slot.ready for slot in self.slots)

    def _begun(self, shared: SharedBegun) -> None:
        self._beginning = None
        for slot, function in zip(self.slots, shared.functions, strict=True):
            slot.function = function
        self.stepper = self.shown = Stepper(self._setup, shared.begun)
        self._settle(self.stepper)

    def _settle(self, stepper: Stepper) -> None:
        """Hand the decision to whose function it is in, or the endings to all that had one."""
        if stepper.decision is not None:
            context = stepper.decision.context
            slot = next(each for each in self.slots if each.function == context)
            slot.state, slot.ready = _State.DECIDING, True
            return
        ending = stepper.ending
        assert ending is not None
        endings = {} if ending.truncated else function_endings(self._setup, stepper.episode, stepper.outcome)
        self._end()
        for slot in self.slots:
            if slot.state is _State.BETWEEN:
                assert slot.function is not None
                own = endings.get(slot.function)
                slot.ending = ending if own is None else own._replace(info=self._setup.info(own.info))
                if slot.illegal:
                    slot.ending.info["illegal_action"] = True
                slot.state, slot.ready = _State.IDLE, True
            elif slot.wish is not None:
                slot.error = NoDecisionError(
                    f"function {slot.function!r} of module {stepper.episode.compilation.module.name!r} lost its "
                    "decisions to those that were made before it: name another, or let reset() sample one"
                )
                slot.state, slot.ready, slot.ending = _State.IDLE, True, Ending(0.0, True, {})
        if all(slot.state is _State.WANTING for slot in self.slots):
            self._begin()

    def _give_up(self, error: MlgoError) -> None:
        """Let one of the group tell what it cannot recover from; for all that had begun it is a failed episode."""
        self._end()
        begun = [slot for slot in self.slots if slot.state in (_State.DECIDING, _State.BETWEEN)] or self.slots[:1]
        begun[0].error = error
        for slot in begun:
            slot.state, slot.ending, slot.ready = _State.IDLE, Ending(0.0, True, {}), True

    def close(self) -> None:
        """End everything. Idempotent."""
        self._end()
        for slot in self.slots:
            slot.ready = False


def function_groups(maker: EpisodeMaker, num_envs: int, size: int, mode: AutoresetMode) -> list[FunctionSlot]:
    """Return the sub-environments of a vector environment whose compiles serve several functions each.

    Args:
        maker: what all have in common.
        num_envs: how many sub-environments.
        size: how many functions a compile serves.
        mode: what happens after an episode's end.

    Raises:
        MlgoError: the arguments do not go together.
    """
    settings, count = maker.setup.settings, num_envs // size
    if not maker.setup.of_components or SIZE_METRICS.get(maker.setup.metric) != "text":
        raise MlgoError(
            "functions_per_compile is for an inlining environment of scope='function' that is rewarded for its text; "
            f"found {maker.setup.task.name}, scope={settings.scope!r} and the metric {maker.setup.metric!r}"
        )
    if num_envs % size:
        raise MlgoError(f"num_envs must be a multiple of functions_per_compile={size}, found {num_envs}")
    if mode is AutoresetMode.SAME_STEP:
        raise MlgoError("functions of one compile end together, and their next compile begins later: choose NEXT_STEP")
    groups = [FunctionGroup(maker, range(at * size, (at + 1) * size), mode, Turn(at, count)) for at in range(count)]
    return [slot for group in groups for slot in group.slots]
