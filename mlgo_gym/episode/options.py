"""The arguments of environments, checked. Signatures of `CompilerEnv` and its subclasses have types and defaults."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter
from typing import Any, Literal

from typing_extensions import Self

from mlgo_gym.compiler.limits import CPU_SECONDS, MEMORY_GIB, Limits
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.driver import find_target
from mlgo_gym.corpus.module_order import ORDERS
from mlgo_gym.corpus.opening import parse_corpora
from mlgo_gym.episode.argument_types import check_type, check_types, plain
from mlgo_gym.errors import MlgoError, UnknownArgumentError, did_you_mean
from mlgo_gym.tasks.measurement import PROJECT_METRICS, REWARDS
from mlgo_gym.tasks.task import GRAPH, Task

COMPILE_OPTIONS = "compile_options"
"""The argument with the entries of `CompileOptions`."""

RENDER_MODES = ("ansi", "human")


def _check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    if value not in choices:
        hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
        raise MlgoError(f"expected {name} as one of {_listed(choices)}, got {value!r}{hint or f'; correct {name}'}")


def _listed(choices: Iterable[object]) -> str:
    return ", ".join(map(repr, choices))


def check_order(order: str | Mapping[str, float]) -> None:
    """Raise `MlgoError` if there is no such order of modules, or a weight is negative."""
    check_type("module_order", order, str | Mapping[str, float])
    if isinstance(order, str):
        _check_choice("module_order", order, ORDERS)
    elif any(weight < 0 for weight in order.values()):
        raise MlgoError(f"expected weights ≥ 0 by globs of module names in module_order, got {order!r}; correct it")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The entries of `compile_options`: how each module is compiled.

    Args:
        flags: Flags for modules without recorded ones: driver flags, or `-cc1` and its flags. Default: `-fPIC` and the
            level that the attributes of their functions show.
        extra_flags: Further `-cc1` arguments for every compile, the baseline's included.
        timeout: Longest silence of a computing clang, in seconds.
        memory_limit: Address space and output of one compile, in GiB. None: no limit.
        cpu_limit: CPU time of one compile, in seconds, rounded up (≥ 1). None: no limit.
        preoptimize: Optimise each module once, keep the bitcode, and only generate code in episodes. Only for tasks
            whose decisions follow the optimiser; on by default for those.
        trust_flags: Run the recorded flags of the corpus without a check. By default flags that may do more than shape
            code are refused, and compilers cannot write outside their scratch folder where the kernel supports it.
        check_flags: Check `flags` and `extra_flags` like the recorded flags of a corpus, for arguments that come from a
            file. Excludes `trust_flags`.
        fork_resets: Start further episodes of a module from copies of a clang that waits at its first decision. At most
            8 modules, or 32 functions, wait in 1 GiB together. Default: on for tasks whose decisions follow the
            optimiser if `preoptimize` is off, and for `scope="function"` if the compile ends with its function.
    """

    flags: Sequence[str] | None = None
    extra_flags: Sequence[str] = ()
    timeout: float = 60.0
    memory_limit: float | None = MEMORY_GIB
    cpu_limit: float | None = CPU_SECONDS
    preoptimize: bool | None = None
    trust_flags: bool = False
    check_flags: bool = False
    fork_resets: bool | None = None

    def __post_init__(self) -> None:
        check_types(self)
        if self.cpu_limit is not None and self.cpu_limit < 1:
            raise MlgoError(f"expected cpu_limit ≥ 1 or None, got {self.cpu_limit!r}; the kernel counts whole seconds")
        for name in ("timeout", "memory_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise MlgoError(
                    f"expected {name} > 0{'' if name == 'timeout' else ' or None'}, got {value!r}; correct {name}"
                )
        if self.trust_flags and self.check_flags:
            raise MlgoError("expected trust_flags or check_flags, got both; omit one")

    @property
    def limits(self) -> Limits:
        """The limits of one compile."""
        return Limits(self.memory_limit, self.cpu_limit)


@dataclass(frozen=True, slots=True)
class EnvironmentOptions:
    """The arguments of every environment, and at the end those of environments with inlining decisions.

    Args:
        corpus: Modules to compile: `"builtin"`, a dataset's name, a folder, a `.bc` file, a part of one such as
            `"zstd:train"`, several joined by commas (see `mlgo_gym.open_corpus`), or a `Corpus`.
        target: Target of modules without recorded flags, one of `TARGETS` such as `"thumbv7em"`. Named corpora have a
            target in their name, as in `"zstd@Oz@thumbv7em"`. Default: the triple in the bitcode.
        clang: Compiler: a path or a name on `PATH`, version 17 or newer. Default: `$MLGO_CLANG`, else the bundled one.
        observation: Form of observations: `"flat"`, one float32 vector named by `feature_names`, beside an
            `action_mask` where actions are masked; `"vector"`, one float32 vector that contains the mask; `"graph"`,
            the call graph around the call, for environments with inlining decisions alone.
        reward: Function of cost and baseline cost: `"relative"`, `1 - cost / baseline`; `"bytes"`, `baseline - cost` in
            the unit of the metric.
        metric: Cost of a compile: `"text"`, bytes of the executable sections; `"llvm_size"`, the first column of
            llvm-size; `"loaded"`, its columns text and data, as a flash holds them; `"object"`, bytes of the file;
            `"max_frame"`, bytes of the largest stack frame; `"instructions"`, instructions that the programs of the
            module execute, counted by running them after each compile (a corpus with programs); `"linked"`, bytes of
            the executable sections of the linked files with this module, linked again after each compile (a recorded
            build with links); or a metric of the task. Plain clang compiles the other modules. A dict of weights, such
            as `{"text": 1, "instructions": 0.5}`, adds the relative rewards. Default: the first metric of the task.
        scope: Decisions of an episode: `"module"`, all of one compile; `"function"`, for register allocation only,
            those of one function, rewarded by its cost alone. Clang decides all other functions. With an allocation
            metric the compile ends with its function; with another it runs to the end.
        max_decisions: Number of decisions after which clang decides to the end of the compile (≥ 1). None: no limit.
        strict: Raise `ActionError` on an illegal action. With False, clang's own choice replaces it and
            `info["illegal_action"]` is True. NaN, and a value that is no number, always raise.
        error_reward: Reward of an episode whose compile fails, with `info["error"]`; no other episode gets less.
            `"lowest"`: that of a cost 10 times above plain clang's, -10 with `reward="relative"`, times the sum of the
            weights. Or a number < 0. None: raise `CompilerError` instead. The end is `truncated` after a limit of time,
            else `terminated`.
        compile_options: How modules are compiled: a dict with the entries below; the others keep their defaults.
        link_view: Compile modules with the linkages that their functions have after the link: one module owns a
            function that several have, and a function of one module alone is internal. Then the objects of a program
            add up to the linked file. For a recorded build with links, or for one program with `link_facts`.
        module_order: Order of modules that `reset()` does not name: `"random"` draws uniformly each time; a dict draws
            with weights ≥ 0 by glob of module names (`*` matches slashes, the first match counts, default 1);
            `"shuffle"` takes each once and shuffles again; `"cycle"` keeps the order of the corpus. The last two skip
            modules without decisions, restart with `reset(seed=…)`, and share the modules among vectorised
            environments. `set_module_order()` changes it between episodes.
        info: Form of infos: `"full"`, or `"numeric"`, every key at each step as a number or an array of one shape, 0
            where it does not apply; `module` is then the position in `corpus.names` and `failed` marks a failed
            compile.
        render_mode: Result of `render()`: `"ansi"`, text; `"human"` prints the text at each step; or None.
    """

    corpus: str | os.PathLike[str] | Corpus
    target: str | None
    clang: str | None
    observation: str
    reward: str
    metric: str | Mapping[str, float] | None
    scope: str
    max_decisions: int | None
    strict: bool
    error_reward: float | Literal["lowest"] | None
    compile_options: CompileOptions
    link_view: bool
    module_order: str | Mapping[str, float]
    info: str
    render_mode: str | None
    callee_features: bool = False
    link_facts: str | os.PathLike[str] | None = None
    credit: bool = False
    ir: bool = False
    max_functions: int | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, Parameter], arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return options, and the other arguments of an environment, checked by its parameters (all, by name).

        Raises:
            UnknownArgumentError: An argument is no parameter.
            MlgoError: A value has another type.
        """
        _refuse_unknown(parameters, arguments)
        values = {name: parameter.default for name, parameter in parameters.items()} | plain(dict(arguments))
        entries = values[COMPILE_OPTIONS]
        if not isinstance(entries, Mapping):
            raise MlgoError(f"expected {COMPILE_OPTIONS} as a dict, got {entries!r}; write it as {{'timeout': 60}}")
        for name, value in values.items():
            check_type(name, value, parameters[name].annotation)
        _refuse_unknown([field.name for field in fields(CompileOptions)], entries)
        values[COMPILE_OPTIONS] = CompileOptions(**entries)
        own = {field.name: values.pop(field.name) for field in fields(cls) if field.name in values}
        return cls(**own), values

    def check(self, task: Task) -> None:
        """Raise `MlgoError` if an argument is not possible with a task."""
        _check_choice("observation", self.observation, task.observations)
        if self.reward in task.metrics:
            raise MlgoError(f"expected reward as one of {_listed(REWARDS)}, got the metric; use metric={self.reward!r}")
        _check_choice("reward", self.reward, REWARDS)
        metrics = set(self.metric if isinstance(self.metric, Mapping) else (self.metric,))
        self._check_metric(task)
        if self.credit and len(task.advisors) > 1:
            raise MlgoError(
                f"expected decisions on inlining alone for credit=True, got {task.name}; use mlgo/Inline-v0"
            )
        shared = ("text", *PROJECT_METRICS)
        if self.credit and not metrics <= {None, *shared}:
            raise MlgoError(
                f"expected the metric of credit=True among {_listed(shared)}, got {self.metric!r}; use metric='text'"
            )
        _check_choice("scope", self.scope, ("module", "function") if task.has_contexts else ("module",))
        of_project = [metric for metric in PROJECT_METRICS if metric in metrics]
        if self.scope == "function" and of_project:
            raise MlgoError(f"expected scope='module' with metric={of_project[0]!r}, got 'function'; omit the scope")
        if self.link_facts is not None and not (self.callee_features or self.link_view):
            raise MlgoError(
                f"expected callee_features=True or link_view=True with link_facts={self.link_facts!r}, got neither; "
                "add one"
            )
        _check_choice("render_mode", self.render_mode, (None, *RENDER_MODES))
        _check_choice("info", self.info, ("full", "numeric"))
        check_order(self.module_order)
        if self.max_decisions is not None and self.max_decisions < 1:
            raise MlgoError(f"expected max_decisions ≥ 1 or None, got {self.max_decisions!r}; correct it")
        if isinstance(self.error_reward, (int, float)) and not self.error_reward < 0:
            raise MlgoError(
                f"expected error_reward < 0, 'lowest' or None, got {self.error_reward!r}; a failure must not pay"
            )
        if self.max_functions is not None and self.max_functions < 2:
            raise MlgoError(f"expected max_functions ≥ 2, got {self.max_functions!r}; a call has two")
        if self.max_functions is not None and self.observation != GRAPH:
            raise MlgoError(
                f"expected observation='graph' with max_functions={self.max_functions!r}, got {self.observation!r}; "
                "omit it, or call call_graph(functions)"
            )
        if self.credit and self.info != "full":
            raise MlgoError(
                f"expected info='full' with credit=True, got {self.info!r}; the credits are no single number"
            )
        if self.clang == "":
            raise MlgoError("expected clang as a path or a name on PATH, got ''; omit it for the bundled one")
        self._check_corpus()
        if self.compile_options.preoptimize and not task.after_optimization:
            raise MlgoError(
                f"expected a task that decides after the optimiser for preoptimize=True, got {task.name}, which "
                "decides within it; use preoptimize=None"
            )

    def _check_metric(self, task: Task) -> None:
        if not isinstance(self.metric, Mapping):
            _check_choice("metric", self.metric, (None, *task.metrics))
            return
        if not self.metric or not all(name in task.metrics and weight > 0 for name, weight in self.metric.items()):
            raise MlgoError(
                f"expected positive weights by metrics of {_listed(task.metrics)}, got {dict(self.metric)!r}; correct "
                "metric"
            )
        if self.reward != "relative":
            raise MlgoError(f"expected reward='relative' with weights in metric, got {self.reward!r}; omit it")

    def _check_corpus(self) -> None:
        flags, named = self.compile_options.flags, False
        if isinstance(self.corpus, str):
            named = not any(spec.is_path for spec in parse_corpora(self.corpus))
        if self.target is not None:
            find_target(self.target)
            if flags is not None:
                raise MlgoError(
                    f"expected target or the entry flags of {COMPILE_OPTIONS}, got both; name the target in the flags"
                )
        if named:
            self.refuse_ignored_flags(str(self.corpus))

    def refuse_ignored_flags(self, corpus: str) -> None:
        """Raise `MlgoError` for an argument for modules without recorded flags, of which a corpus has none."""
        flags = self.compile_options.flags
        if self.target is not None:
            remedy = f"a name such as 'zstd@Oz@{self.target}' has a target"
        elif flags is not None:
            remedy = "extra_flags adds to recorded flags"
        else:
            return
        argument = f"flags={list(flags)!r}" if flags is not None else f"target={self.target!r}"
        raise MlgoError(
            f"expected a corpus with modules without recorded flags for {argument}, got {corpus!r}; omit it: {remedy}"
        )

    @property
    def reads_code(self) -> bool:
        """Whether sessions follow the code of the module, for `ir()` and `call_graph()`."""
        return self.ir or self.observation == GRAPH


def _refuse_unknown(names: Collection[str], arguments: Iterable[str]) -> None:
    entries = [field.name for field in fields(CompileOptions)]
    for name in arguments:
        if name in names:
            continue
        # TorchRL tries `frameskip`, and searches the error for these words before it tries without.
        unexpected = f"unexpected keyword argument {name!r}"
        if name in entries:
            raise UnknownArgumentError(
                f"{unexpected}; it is an entry of compile_options: compile_options={{{name!r}: …}}"
            )
        hint = did_you_mean(name, names)
        raise UnknownArgumentError(f"{unexpected}{hint or ';'} expected {', '.join(sorted(names))}")


def with_compile_options(arguments: Mapping[str, Any], **entries: Any) -> dict[str, Any]:
    """Return the arguments of an environment with further entries in `compile_options`."""
    return {**arguments, COMPILE_OPTIONS: {**arguments.get(COMPILE_OPTIONS, {}), **entries}}
