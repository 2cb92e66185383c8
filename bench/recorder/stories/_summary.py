"""The summary that a recorded harness writes when it compacts: long, structured, and made of what was really said."""

from __future__ import annotations

from ..conversation import Line


def continuation(lines: list[Line], state: str) -> str:
    """Write a summary of a conversation: the users' words, files, commands with their outcome, the state."""
    users = [line.text for line in lines if line.role == "user"]
    files: dict[str, int] = {}
    for line in lines:
        for call in line.calls:
            if "path" in call.arguments and call.name != "grep":
                files[call.arguments["path"]] = files.get(call.arguments["path"], 0) + 1
    outcomes = {line.call_id: line for line in lines if line.role == "tool"}
    commands = []
    for line in lines:
        for call in line.calls:
            if call.name == "bash" and call.id in outcomes:
                last = outcomes[call.id].text.strip().rsplit("\n", 1)[-1][:90]
                commands.append(f"   - `{call.arguments['command'][:110]}`: {last}")
    thoughts = [line.text for line in lines if line.role == "assistant" and len(line.text) > 110]
    return "\n".join(
        [
            "This session continues an earlier one that filled its context. What happened so far:",
            "",
            "1. What the user asked for, word for word:",
            *(f"   - {text}" for text in users),
            "",
            "2. Files that were read or changed:",
            *(f"   - {path} ({count} times)" for path, count in sorted(files.items())),
            "",
            "3. Commands and how they ended:",
            *commands,
            "",
            "4. What was found and decided on the way:",
            *(f"   - {text}" for text in thoughts),
            "",
            f"5. Where the work stands: {state}",
            "",
            "Continue with the last task without asking the user again.",
        ]
    )
