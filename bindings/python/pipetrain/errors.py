"""What goes wrong, as exceptions. Each text is one line: what, where, and what to do."""


class Error(RuntimeError):
    """Anything that fails in pipetrain. `kind` says what: "input", "aborted", "lost", "out of memory" and so on."""

    kind: str = "internal"


class InputError(Error, ValueError):
    """An argument, a plan or a file is wrong."""

    kind = "input"


class PlanError(InputError):
    """A plan breaks a rule: the stage and the action are in the first line, the place on the printed grid below."""


class MisuseError(Error):
    """A call out of order: during another step, from inside a stage's code, of a pipeline that was closed."""


class RunFailed(Error):
    """A step failed. `waiting` has a line a stage: what it waited for. The exception of a stage's code is `__cause__`."""

    waiting: list[str]

    def __init__(self, line: str):
        super().__init__(line)
        self.waiting = []

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *self.waiting])


class ProgramFailed(Error):
    """The command-line program ended with an error. `status` is its exit status."""

    def __init__(self, line: str, status: int = 1):
        super().__init__(line)
        self.status = status
        self.kind = "input" if status == 2 else "failed"
