"""Lists of messages in the many containers and dialects that home-made harnesses and benchmarks write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import EmptyTranscriptError
from compactctl.model import Message, Origin, Parts, Session, ToolCall, Usage
from compactctl.transcripts import load

GO = {"role": "user", "content": "go"}
DONE = {"role": "assistant", "content": "done"}
CALL = {"id": "t1", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}


def read_all(path: Path, *rows: Any, indent: int | None = None) -> list[Session]:
    """Write values one a line and load all sessions."""
    path.write_text("\n".join(json.dumps(row, indent=indent) for row in rows))
    return list(load(path))


def read(path: Path, *rows: Any, indent: int | None = None) -> Session:
    """Write values one a line and load the one session."""
    (session,) = read_all(path, *rows, indent=indent)
    return session


def test_openai_chat(tmp_path: Path) -> None:
    """Null content with calls, a developer prompt, content parts, and results in another order than the calls."""
    rows = [
        {"role": "developer", "content": "be good"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "http:x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "t2"}]},
        {"role": "tool", "tool_call_id": "t2", "content": [{"type": "text", "text": "second"}]},
        {"role": "tool", "tool_call_id": "t1", "content": "first", "name": "ls"},
    ]

    session = read(tmp_path / "x", rows)

    assert [m.role for m in session.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert session.messages[1].parts == Parts(images=1)
    assert session.messages[2] == Message(
        "assistant", "", (ToolCall("t1", "ls", '{"a":1}'), ToolCall("t2", "ls", '{"a":1}'))
    )
    assert [m.tool_call_id for m in session.messages[3:]] == ["t2", "t1"]


def test_calls_of_the_old_kind_are_paired_in_order(tmp_path: Path) -> None:
    """function_call has no id: the call and the next function message get one that is the same."""
    rows = [
        GO,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "one"},
        {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "g", "content": "two"},
    ]

    session = read(tmp_path / "x", *rows)

    calls = [call.id for message in session.messages for call in message.tool_calls]
    assert calls == [message.tool_call_id for message in session.messages if message.role == "tool"]
    assert len(set(calls)) == 2


def test_anthropic_messages(tmp_path: Path) -> None:
    """The system prompt is a key beside the list; results are blocks of a user message; thinking is no text."""
    blocks = [
        {"type": "thinking", "thinking": "hmm"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": 1}},
    ]
    answer = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "out", "is_error": True},
        {"type": "text", "text": "!"},
    ]
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "output_tokens": 5}
    document = {
        "model": "opus",
        "system": [{"type": "text", "text": "be good"}],
        "messages": [GO, {"role": "assistant", "content": blocks, "usage": usage}, {"role": "user", "content": answer}],
    }

    session = read(tmp_path / "x", document, indent=1)

    assert session.model == "opus"
    assert session.messages == (
        Message("system", "be good"),
        Message("user", "go"),
        Message(
            "assistant",
            "I look",
            (ToolCall("t1", "ls", '{"a":1}'),),
            usage=Usage(11, 5, 10),
            parts=Parts(thinking_chars=3),
        ),
        Message("tool", "out", tool_call_id="t1", is_error=True),
        Message("user", "!"),
    )


def test_responses_items(tmp_path: Path) -> None:
    """Items of the Responses API: what the model gives between two answers is one message."""
    document = {
        "instructions": "be good",
        "input": [
            GO,
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t1", "output": "out"},
        ],
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}],
    }

    session = read(tmp_path / "x", document)

    assert [(m.role, m.content) for m in session.messages] == [
        ("system", "be good"),
        ("user", "go"),
        ("assistant", ""),
        ("tool", "out"),
        ("assistant", "done"),
    ]


ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
REASONING = {"type": "reasoning", "summary": []}
TOLD = {"model": "m", "usage": {"input_tokens": 40, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 2}}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "document",
    [
        {"input": [{**GO, "type": "message"}], "output": [REASONING, ANSWER], **TOLD},
        {"input": "go", "output": [REASONING, ANSWER], **TOLD},
        {"input": "go", "response": {"output": [REASONING, ANSWER], **TOLD}},
        {"input": [GO], "response": {"output": [ANSWER, {"type": "ghost"}], **TOLD}},
    ],
)
def test_requests_of_the_responses_api(tmp_path: Path, document: Any, indent: int | None) -> None:
    """The prompt may be a list or a text; the reply has the usage and the model that stand beside its items."""
    session = read(tmp_path / "x.json", document, indent=indent)

    assert [(m.role, m.content) for m in session.messages] == [("user", "go"), ("assistant", "done")]
    assert session.messages[1].usage == Usage(40, 2, 8)
    assert session.messages[1].model == session.model == "m"


def test_a_reply_beside_a_request_is_a_call_of_its_own(tmp_path: Path) -> None:
    """Its usage is not given to the reply with which the request ends; what carries no message is counted or told."""
    document = {"input": [GO, ANSWER], "output": [ANSWER, {"type": "ghost"}, 7], **TOLD}
    silent = {"input": [GO, ANSWER], "output": [{"type": "ghost"}], **TOLD}

    session = read(tmp_path / "x.json", document, indent=1)
    line = read(tmp_path / "y.json", document)
    nothing = read(tmp_path / "z.json", silent, indent=1)

    assert [m.usage for m in session.messages] == [None, None, Usage(40, 2, 8)]
    assert (session.lines.total, session.lines.used) == (5, 3)
    assert session.lines.ignored == {"ghost": 1, "not an object": 1}
    assert (line.lines.total, line.lines.used) == (1, 1)
    assert line.warnings == ("2 entries of its list carry no message ('ghost', 'not an object')",)
    assert [m.usage for m in nothing.messages] == [None, None]


def test_items_one_a_line(tmp_path: Path) -> None:
    """The same items may stand one a line; a reply that is still open at the end is not lost."""
    call = {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"}

    session = read(tmp_path / "x", {"type": "message", **GO}, call, GO, call)

    assert [m.role for m in session.messages] == ["user", "assistant", "user", "assistant"]


def test_harness9(tmp_path: Path) -> None:
    """harness9 flattens calls, writes arguments as raw JSON, and gives results the role of a user."""
    rows = [
        GO,
        {"role": "assistant", "content": "", "tool_calls": [{"id": "t1", "name": "ls", "arguments": {"a": 1}}]},
        {"role": "user", "content": "out", "tool_call_id": "t1"},
    ]

    session = read(tmp_path / "x", *rows)

    assert session.messages[1].tool_calls == (ToolCall("t1", "ls", '{"a":1}'),)
    assert session.messages[2] == Message("tool", "out", tool_call_id="t1")


def test_swe_agent(tmp_path: Path) -> None:
    """The history is read, not the trajectory, which repeats the prompt at each step; ids are lists of one."""
    document = {
        "trajectory": [{"action": "ls", "query": [GO, DONE]}],
        "history": [
            {"role": "system", "content": "be good", "agent": "primary"},
            {"role": "assistant", "content": "x", "tool_calls": [CALL]},
            {"role": "tool", "content": [{"type": "text", "text": "out"}], "tool_call_ids": ["t1"]},
        ],
        "info": {},
    }

    session = read(tmp_path / "x", document, indent=2)

    assert [m.role for m in session.messages] == ["system", "assistant", "tool"]
    assert session.messages[2].tool_call_id == "t1"


def test_mini_swe_agent(tmp_path: Path) -> None:
    """Usage, model and time lie in the response that the second version keeps beside each message."""
    extra = {
        "response": {"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        "timestamp": 1_700_000_000,
    }
    document = {"messages": [GO, {**DONE, "extra": extra}, {"role": "exit", "content": "bye"}], "info": {}}

    session = read(tmp_path / "x", document)

    assert session.messages[1].usage == Usage(7, 2)
    assert session.messages[1].timestamp == "2023-11-14T22:13:20.000Z"
    assert session.model == "m"
    assert any("'exit'" in warning for warning in session.warnings)


def test_tau_bench_holds_many_sessions(tmp_path: Path) -> None:
    """Each run of the list is a session, in order, with an id of its own; a run without messages has none."""
    runs = [{"task_id": 0, "traj": [GO, DONE]}, {"task_id": 1, "traj": []}, {"task_id": 2, "traj": [GO]}]

    sessions = read_all(tmp_path / "runs.json", runs, indent=1)

    ids = [session.id for session in sessions]
    assert ids == [f"runs-{sessions[0].input_sha256[:8]}-{number}" for number in (1, 3)]
    assert [len(session.messages) for session in sessions] == [2, 1]
    assert [session.lines.total for session in sessions] == [2, 1]


def test_tau2_simulations(tmp_path: Path) -> None:
    """tau2 keeps its runs under another key, each with an id; a result is named by its own id there."""
    messages = [GO, {"role": "assistant", "content": None, "tool_calls": [{"id": "t", "name": "f", "arguments": {}}]}]
    document = {
        "info": {},
        "simulations": [{"id": "sim", "messages": [*messages, {"role": "tool", "id": "t", "content": "o"}]}],
    }

    session = read(tmp_path / "x", document, indent=1)

    assert session.id == "sim"
    assert session.messages[2].tool_call_id == "t"


def test_a_session_a_line(tmp_path: Path) -> None:
    """Lines with messages are sessions each; their accounts add up to the file, blank and bad lines among them."""
    path = tmp_path / "set.jsonl"
    line = json.dumps({"messages": [GO, DONE]})
    path.write_text(f"\n{line}\n\nbad\n{line}{line}\n{json.dumps({'messages': [GO], 'id': 'mine'})}\n\n")

    sessions = list(load(path))

    assert [len(session.messages) for session in sessions] == [2, 2, 2, 1]
    assert sessions[-1].id == "mine"
    assert [session.lines.total for session in sessions] == [4, 0, 1, 2]
    assert sum(session.lines.recovered for session in sessions) == 1
    assert sum(session.lines.blank for session in sessions) == 3
    assert sum(len(session.lines.skipped) for session in sessions) == 1
    assert sum(session.lines.used for session in sessions) == 2


def test_runs_on_one_line(tmp_path: Path) -> None:
    """A document of many runs may be written on one line; the line is counted once."""
    document = {"simulations": [{"id": "a", "messages": [GO]}, {"messages": [GO, DONE]}]}

    sessions = read_all(tmp_path / "x.json", document)

    assert [len(session.messages) for session in sessions] == [1, 2]
    assert [session.id for session in sessions] == ["a", f"x-{sessions[0].input_sha256[:8]}-2"]
    assert [session.lines.total for session in sessions] == [1, 0]


def test_a_reply_in_work_is_kept_when_another_session_begins(tmp_path: Path) -> None:
    """Items leave a reply open that only what follows ends, be it the header of another session."""
    call = {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"}

    first, second = read_all(tmp_path / "x", GO, call, {"compactctl": 1, "session_id": "s"}, GO)

    assert [m.role for m in first.messages] == ["user", "assistant"]
    assert (second.id, len(second.messages)) == ("s", 1)


def test_one_line_is_one_session_without_a_number(tmp_path: Path) -> None:
    """A request log of one line is named by its file alone, and its reply and window are read."""
    reply = {
        "choices": [{"message": {"role": "assistant", "content": "done"}}],
        "usage": {"prompt_tokens": 5},
        "model": "m",
    }

    session = read(tmp_path / "log.json", {"messages": [GO], "context_window": 65536, "response": reply})

    assert session.id == f"log-{session.input_sha256[:8]}"
    assert session.context_window == 65536
    assert session.messages[1] == Message("assistant", "done", model="m", usage=Usage(5, 0))


def test_cline(tmp_path: Path) -> None:
    """Cline records the system prompt, metrics of each message, files as blocks and its own compaction."""
    document = {
        "sessionId": "c",
        "system_prompt": "be good",
        "messages": [
            {"role": "user", "content": "summary", "metadata": {"kind": "compaction_summary", "tokensBefore": 900}},
            {
                "role": "user",
                "content": [{"type": "file", "path": "/x", "content": "text of x"}],
                "ts": 1_700_000_000_000,
            },
            {**DONE, "modelInfo": {"id": "m"}, "metrics": {"inputTokens": 9, "outputTokens": 1, "cacheReadTokens": 4}},
        ],
    }

    session = read(tmp_path / "x", document, indent=1)

    assert (session.id, session.model) == ("c", "m")
    assert session.messages[1].origin is Origin.RECORDED_SUMMARY
    assert session.messages[2].content == "text of x"
    assert session.messages[3].usage == Usage(9, 1, 4)
    (compaction,) = session.compactions
    assert (compaction.at, compaction.tokens_before, compaction.before_model_call) == (1, 900, 0)


def test_cursor_and_drifted_rows(tmp_path: Path) -> None:
    """A role with the content one level deeper, or under another name, is a message too; other rows are counted."""
    session = read(
        tmp_path / "x",
        {"role": "user", "message": {"content": [{"type": "text", "text": "go"}]}},
        {"role": "assistant", "text": "done"},
        {"type": "function_result", "result": "x"},
        {"event": "other"},
        {},
    )

    assert [(m.role, m.content) for m in session.messages] == [("user", "go"), ("assistant", "done")]
    assert session.lines.ignored == {"event/other": 1, "function_result": 1, "no role": 1}


@pytest.mark.parametrize(
    "content",
    [
        None,
        7,
        True,
        {"type": "text", "text": "x"},
        [],
        [1, None, "s"],
        [{"type": "odd", "deep": [[1]]}],
        {"a": {"b": 1}},
    ],
)
def test_content_of_any_shape(tmp_path: Path, content: Any) -> None:
    """Content of any shape becomes text; unknown blocks are kept as JSON, never dropped."""
    session = read(tmp_path / "x", GO, {"role": "assistant", "content": content}, DONE)

    assert len(session.messages) == 3
    if isinstance(content, list) and content == [{"type": "odd", "deep": [[1]]}]:
        assert session.messages[1].content == '{"type":"odd","deep":[[1]]}'


def test_a_header_without_messages(tmp_path: Path) -> None:
    """A list that holds no message is refused."""
    with pytest.raises(EmptyTranscriptError):
        read_all(tmp_path / "x", {"compactctl": 1, "session_id": "s"})
