"""The exceptions of pipetrain. Each text is one line: what, where, and what to do."""


class Error(RuntimeError):
    """Any failure in pipetrain. `kind` names it: "input", "aborted", "lost", "out of memory" and so on."""

    kind: str = "internal"


class InputError(Error, ValueError):
    """An argument, a plan or a file is wrong."""

    kind = "input"


class PlanError(InputError):
    """A plan breaks a rule: its first line names the stage and the action, and the grid below shows the position."""


class MisuseError(Error):
    """A call out of order: during another step, inside a stage's code, or on a closed pipeline."""


class RunFailed(Error):
    """A step failed. `waiting` says for each stage in a line what it waited for. The exception of a stage's code is `__cause__`."""

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
