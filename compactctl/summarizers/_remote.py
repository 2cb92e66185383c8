"""What the two official clients have in common here: endpoint, key, guards, and the run of one call."""

from __future__ import annotations

import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from compactctl.errors import SettingsError, UsageError
from compactctl.summarizers._calls import Attempt, Caller
from compactctl.summarizers._chat import Completion, Prompt
from compactctl.summarizers._endpoint import check_endpoint
from compactctl.summarizers._failure import Failure, failure
from compactctl.summarizers._http import Guard
from compactctl.summarizers._secret import Redactor, Secret, read_secret
from compactctl.summarizers._settings import RemoteSettings
from compactctl.summarizers._spending import Spending


class RemoteChat(ABC):
    """A model behind an official client. A subclass names it and sends one request.

    Nothing is imported, read or connected before the first call, so a replay from a cassette needs neither client nor
    key. ``clock``, ``now``, ``sleep``, ``jitter`` and ``environ`` are handed in by tests.
    """

    provider = ""
    extra = ""

    def __init__(
        self,
        settings: RemoteSettings,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings
        self.endpoint = check_endpoint(settings.base_url, settings.allow_insecure_endpoint)
        self._environ = os.environ if environ is None else environ
        self._times: dict[str, Any] = {"clock": clock, "sleep": sleep, "jitter": jitter}
        self._now = now
        self._secret: Secret | None = None
        self._caller: Caller | None = None
        self._stopped = False
        self.library: Any = None

    @property
    def identity(self) -> Mapping[str, Any]:
        """Provider, model and the parameters that shape an answer."""
        settings = self.settings
        return {
            "provider": self.provider,
            "model": settings.model,
            "max_output_tokens": settings.max_output_tokens,
            "temperature": settings.temperature,
        }

    @property
    def host(self) -> str:
        """The endpoint's host."""
        return self.endpoint.host

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Give the model's answer; raises SummarizerError within the time limit."""
        caller = self._ready()

        def once(attempt: Attempt) -> Completion:
            return spending.charge(prompt.input_tokens, self.output_tokens(prompt), lambda: self.ask(attempt, prompt))

        completion = caller.run(once)
        # A server may echo the key; it must not reach a record or a cassette that way either.
        redact = Redactor([self._secret])
        return Completion(redact(completion.text), completion.nonce, completion.usage, completion.notes)

    def prepare(self) -> None:
        """Import the client and read the key; raises SettingsError or UsageError where one is missing."""
        self._ready()

    def stop(self) -> None:
        """End a call that is under way in another thread, and allow no other."""
        self._stopped = True
        if self._caller is not None:
            self._caller.stop()

    @abstractmethod
    def ask(self, attempt: Attempt, prompt: Prompt) -> Completion:
        """Send one request; raises CallError."""

    def output_tokens(self, prompt: Prompt) -> int:
        """Give the token cap of a reply: as set, else room for the wanted size in a model's own smaller tokens."""
        return self.settings.max_output_tokens or prompt.budget * 2 + 512

    def key(self) -> str:
        """Give the key for the client alone."""
        return self._secret.reveal() if self._secret else "none"

    def guard(self, attempt: Attempt) -> Guard:
        """Give the guards of one try."""
        return Guard(attempt, Redactor([self._secret]), self._now)

    def http_client(self, guard: Guard, attempt: Attempt) -> Any:
        """Give the HTTP client of one try, in whichever HTTP library the official client uses."""
        library = self.library
        limits = attempt.limits
        left = attempt.remaining()
        idle = min(limits.idle, left)
        return library.DefaultHttpxClient(
            timeout=library.Timeout(connect=min(limits.connect, left), read=idle, write=idle, pool=left),
            follow_redirects=False,
            event_hooks=guard.hooks(),
            # A proxy from the environment would see an unencrypted transcript; through https it sees nothing.
            trust_env=self.endpoint.encrypted,
            # Without https there is nothing to verify, and no reason to load all certificates for each try.
            verify=self.endpoint.encrypted,
        )

    def _ready(self) -> Caller:
        if self._stopped:
            raise failure(Failure.INTERRUPTED, "the run was stopped")
        if self._caller is None:
            if find_spec(self.extra) is None:
                raise UsageError(
                    f"--summarizer {self.provider} needs the extra: pip install 'compactctl[{self.extra}]'"
                )
            settings = self.settings
            self._secret = read_secret(self._environ, settings.key_env, settings.key_file)
            if self._secret is None and not self.endpoint.loopback:
                raise SettingsError(f"no key for {self.host}: set {settings.key_env} or name a file with --key-file")
            # The import may take seconds, which are not the endpoint's.
            self.library = import_module(self.extra)
            self._caller = Caller(settings.limits, Redactor([self._secret]), **self._times)
        return self._caller
