"""Summaries from any program: the request as JSON on its standard input, the summary on its standard output."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

import orjson

from compactctl.errors import SettingsError, UsageError
from compactctl.ports import BlobStore, SummarizerSpec
from compactctl.settings import MODEL_OPTIONS, PROGRAM_OPTIONS
from compactctl.summarizers._build import model_summarizer
from compactctl.summarizers._calls import Attempt, Caller, CallError, Limits
from compactctl.summarizers._chat import Completion, Prompt
from compactctl.summarizers._failure import Failure
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._secret import Redactor, Secret
from compactctl.summarizers._settings import CommonSettings
from compactctl.summarizers._spending import Spending

_ERROR_BYTES = 65_536  # of what a program says on standard error; the beginning of it is shown
_KEY_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class CommandChat:
    """A model that is a program. It is started without a shell, in a group of its own, and killed at the time limit.

    Its input is one JSON object: ``compactctl`` (1), ``purpose``, ``format``, ``budget_tokens``, ``system`` and
    ``prompt`` (the whole question, ready to be passed on), ``conversation`` and ``previous`` (the parts inside it).
    Exit status 0 and text mean success; anything else is a failure that shows the beginning of its standard error.
    """

    def __init__(
        self,
        command: str,
        settings: CommonSettings,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise SettingsError(f"--command cannot be read: {error}") from None
        if not self._arguments:
            raise SettingsError("no command: name the program with --command")
        self._settings = settings
        self._environ = dict(os.environ if environ is None else environ)
        # A program may print what it was given; keys that it inherits must not reach a record that way.
        held = (value for name, value in self._environ.items() if any(part in name.upper() for part in _KEY_NAMES))
        self._redact = Redactor(map(Secret, held))
        limits = Limits(total=settings.total, tries=1)
        self._caller = Caller(limits, self._redact, clock=clock, jitter=random.random)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The command line and the model's name, if one was given."""
        return {"provider": "command", "model": self._settings.model, "command": self._arguments}

    @property
    def host(self) -> str:
        """The program."""
        return f"program {self._arguments[0]}"

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Run the program once; raises SummarizerError."""

        def once(attempt: Attempt) -> Completion:
            # A program does not say what it used: the estimate and the budget that it was told stay on the account.
            return spending.charge(prompt.input_tokens, prompt.budget, lambda: self._run(attempt, prompt))

        completion = self._caller.run(once)
        return Completion(self._redact(completion.text), completion.nonce, None)

    def prepare(self) -> None:
        """Look for the program; raises UsageError where there is none."""
        if shutil.which(self._arguments[0], path=self._environ.get("PATH")) is None:
            raise UsageError(f"--command: {self._arguments[0]} is no program that can be started")

    def stop(self) -> None:
        """Kill the program if it runs, and start it no more."""
        self._caller.stop()

    def _run(self, attempt: Attempt, prompt: Prompt) -> Completion:
        try:
            process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise CallError(
                Failure.COMMAND_FAILED, f"{self._arguments[0]} cannot be started: {why}", free=True
            ) from None
        attempt.on_end(lambda: _kill(process))
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            _in_background(_feed, process.stdin, _request(prompt))
            said: list[bytes] = []
            listener = _in_background(_drain, process.stderr, said)
            try:
                text = process.stdout.read(attempt.limits.reply_bytes + 1)
                if len(text) > attempt.limits.reply_bytes:
                    raise CallError(Failure.TOO_LARGE, f"the reply is larger than {attempt.limits.reply_bytes} bytes")
                status = process.wait(attempt.remaining())
                listener.join(1.0)
            except subprocess.TimeoutExpired:
                raise CallError(Failure.TIMEOUT, "the program closed its output but did not end") from None
            finally:
                _kill(process)
        attempt.remaining()
        if status:
            why = self._last_words(b"".join(said), cut=listener.is_alive() or status < 0)
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise CallError(Failure.COMMAND_FAILED, f"{self._arguments[0]} {how}: {why}".rstrip(": "))
        try:
            return Completion(text.decode("utf-8"), prompt.nonce)
        except UnicodeDecodeError:
            raise CallError(Failure.MALFORMED, "the program's output is not UTF-8") from None

    def _last_words(self, said: bytes, *, cut: bool) -> str:
        """Give standard error as text; ``cut`` says that it may lack its end."""
        text = said[:_ERROR_BYTES].decode("utf-8", "replace")
        return self._redact.cut(text) if cut or len(said) > _ERROR_BYTES else text


def _request(prompt: Prompt) -> bytes:
    fields = {
        "compactctl": 1,
        "purpose": prompt.purpose,
        "format": str(prompt.form),
        "budget_tokens": prompt.budget,
        "system": prompt.system,
        "prompt": prompt.user,
        "conversation": prompt.conversation,
        "previous": prompt.previous,
    }
    plain = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in fields.items()
    }
    return orjson.dumps(plain) + b"\n"


def _in_background(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, name="compactctl-pipe", daemon=True)
    thread.start()
    return thread


def _feed(pipe: IO[bytes], data: bytes) -> None:
    # A program that does not read its input closes the pipe; that alone is no failure.
    with contextlib.suppress(OSError, ValueError):
        pipe.write(data)
    with contextlib.suppress(OSError, ValueError):
        pipe.close()


def _drain(pipe: IO[bytes], kept: list[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        size = 0
        while piece := pipe.read1(4096):  # type: ignore[attr-defined]  # a buffered reader, which IO does not say
            if size <= _ERROR_BYTES:  # one byte more than is used shows that there was more
                kept.append(piece)
                size += len(piece)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The whole group: a program that started others must not leave them behind.
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _make(options: Mapping[str, Any], blobs: BlobStore | None) -> ModelSummarizer:
    settings = CommonSettings.of(options)
    return model_summarizer(CommandChat(options["command"], settings), settings, blobs)


SUMMARIZER = SummarizerSpec(
    name="command",
    help="any program (--command): the request as JSON on its input, the summary on its output",
    make=_make,
    options=(*MODEL_OPTIONS, *PROGRAM_OPTIONS),
    remote=True,
)
