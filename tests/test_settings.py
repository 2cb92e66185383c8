"""Settings: where a value is from, and what happens to a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from compactctl.compactors.progressive import COMPACTOR
from compactctl.errors import SettingsError
from compactctl.settings import SETTINGS, canonical, compactor_options, parse_file, resolve, whole


def test_a_flag_wins_over_environment_file_and_default() -> None:
    """The order is flag, COMPACTCTL_ variable, file, default; each value says where it is from."""
    file = {"window": 1000, "jobs": 3, "meter": "dsh"}
    settings = resolve({"window": "5k"}, {"COMPACTCTL_WINDOW": "2k", "COMPACTCTL_JOBS": "2"}, file, "compactctl.toml")

    assert (settings["window"], settings.values["window"].origin) == (5000, "flag")
    assert (settings["jobs"], settings.values["jobs"].origin) == (2, "COMPACTCTL_JOBS")
    assert (settings["meter"], settings.values["meter"].origin) == ("dsh", "compactctl.toml")
    assert (settings["recorded"], settings.values["recorded"].origin) == ("ignore", "default")


@pytest.mark.parametrize(
    ("text", "number"), [("200000", 200_000), ("200k", 200_000), ("1m", 1_000_000), ("200_000", 200_000), (7, 7)]
)
def test_whole_numbers_are_read_as_people_write_them(text: object, number: int) -> None:
    """Windows may be written with k, m and separators."""
    assert whole()(text) == number


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "k", True, 1.5, None, "٣x"])
def test_what_is_no_whole_number_is_refused(text: object) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="a whole number"):
        whole()(text)


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    """A typing error in the file is found, not ignored."""
    with pytest.raises(SettingsError, match=r"compactctl.toml: unknown setting 'widnow'. Did you mean 'window'"):
        parse_file("widnow = 5", "compactctl.toml")


def test_a_pyproject_holds_the_settings_in_its_tool_table() -> None:
    """``[tool.compactctl]`` is read, the rest of the file is not ours."""
    text = '[project]\nname = "x"\n[tool.compactctl]\nwindow = 5\n[tool.compactctl.set]\nsoft = 0.75\n'

    assert parse_file(text, "some/pyproject.toml") == {"window": 5, "set": {"soft": 0.75}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("window = 'big'", "compactctl.toml: window: 'big' is not a whole number"),
        ("history = 'both'", "is not one of view, write-back"),
        ("set = 5", "set must be a table"),
        ("prices = 'high'", "prices must be a table"),
        ("budgets = {a = 1}", "budgets must be a list of tables"),
        ("budgets = [1]", "budgets must be a list of tables"),
        ("jobs = 0", "at least 1"),
    ],
)
def test_an_impossible_value_says_what_is_allowed(content: str, words: str) -> None:
    """The message names the place, the value and what would do."""
    with pytest.raises(SettingsError, match=words):
        resolve({}, {}, parse_file(content, "compactctl.toml"), "compactctl.toml")


def test_a_byte_order_mark_is_no_setting() -> None:
    """A file that an editor of Windows saved is read as any other."""
    assert parse_file("\ufeffjobs = 2\n", "compactctl.toml") == {"jobs": 2}


def test_not_toml_names_the_file() -> None:
    """A broken file is one line that says where."""
    with pytest.raises(SettingsError, match=r"x\.toml: not valid TOML"):
        parse_file("= 5", "x.toml")


def test_short_forms_are_the_same_options() -> None:
    """``soft`` and ``soft_threshold`` are one option, in a file and in --set."""
    settings = resolve({}, {}, {"set": {"soft": 0.72}}, "f", ["full_threshold=0.85", "tail=4"])
    options = compactor_options(COMPACTOR, settings.options)

    assert (options["soft_threshold"], options["full_threshold"], options["min_tail_messages"]) == (0.72, 0.85, 4)
    assert options["warn_threshold"] == 0.60


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"sotf": "0.7"}, "progressive has no option 'sotf'. Did you mean 'soft'"),
        ({"soft": "high"}, "soft_threshold: 'high' is not a number"),
        ({"soft": "nan"}, "soft_threshold: 'nan' is not a number"),
        ({"soft": "\u0660.\u0667"}, "is not a number"),
        ({"soft": 0.7, "soft_threshold": 0.8}, "set twice"),
        ({"soft": 0.9, "full": 0.8}, "soft_threshold 0.9 is above full_threshold 0.8"),
        ({"tail": 0}, "at least 1"),
    ],
)
def test_a_wrong_option_is_refused(written: dict[str, object], words: str) -> None:
    """Unknown, impossible and contradicting options never reach a compactor."""
    with pytest.raises(SettingsError, match=words):
        compactor_options(COMPACTOR, written)


def test_equal_thresholds_are_allowed() -> None:
    """A tier may be switched off by giving it the threshold of the next."""
    assert compactor_options(COMPACTOR, {"warn": 0.7, "soft": 0.7})["warn_threshold"] == 0.7


@given(st.dictionaries(st.sampled_from([s.name for s in SETTINGS]), st.text(max_size=5), max_size=4))
def test_resolving_gives_settings_or_a_settings_error(flags: dict[str, str]) -> None:
    """Whatever is written, nothing but SettingsError comes out."""
    try:
        settings = resolve(flags, {})
    except SettingsError:
        return

    assert all(settings.values[name].origin == "flag" for name in flags)


def test_canonical_settings_do_not_depend_on_order() -> None:
    """The same settings have the same hash whoever wrote them."""
    assert canonical({"a": 1, "b": {"c": 2, "d": 3}}) == canonical({"b": {"d": 3, "c": 2}, "a": 1})


def test_an_empty_text_may_be_written_where_it_is_the_default() -> None:
    """``--set version=`` is how the default is named; a text that must be one stays refused."""
    from compactctl.compactors.claude_code import COMPACTOR as CLAUDE_CODE

    assert compactor_options(CLAUDE_CODE, {"version": ""})["version"] == ""
    with pytest.raises(SettingsError, match="is not a text"):
        resolve({"compactor": ""}, {})


def test_only_windows_are_shown_how_to_write_millions() -> None:
    """A wrong number of jobs is not answered with 200k."""
    with pytest.raises(SettingsError, match=r"--jobs: 'x' is not a whole number of at least 1$"):
        resolve({"jobs": "x"}, {})
    with pytest.raises(SettingsError, match=r"200000, 200k, 1m"):
        resolve({"window": "x"}, {})


def test_thresholds_out_of_order_are_named_with_their_order() -> None:
    """Which is above which, and how they must stand."""
    with pytest.raises(SettingsError, match=r"soft_threshold 2 is above full_threshold 0.8; the order is warn <= soft"):
        compactor_options(COMPACTOR, {"soft": "2"})


def test_a_variable_that_sets_nothing_is_refused_with_the_nearest() -> None:
    """A typing error in the environment is found as one in the file is; what is no setting by intent is allowed."""
    with pytest.raises(SettingsError, match=r"COMPACTCTL_WINDW: no such setting. Did you mean COMPACTCTL_WINDOW"):
        resolve({}, {"COMPACTCTL_WINDW": "5"})
    resolve({}, {"COMPACTCTL_DEBUG": "1", "_COMPACTCTL_COMPLETE": "zsh_source", "OTHER": "x"})


HUGE = "9" * 5000


@pytest.mark.parametrize("text", ["1_", "_1", "5,0,0", "1,00", "1__0", "٣", HUGE, HUGE + "k", "1000001m", 10**400, -1])
def test_a_number_that_nobody_means_is_refused(text: object) -> None:
    """Separators stand where people put them, and no number is larger than anything it could count."""
    with pytest.raises(ValueError, match="a whole number"):
        whole()(text)
    assert [whole()(good) for good in ("1,000,000", "1_000", "12,000", "000000000000000000007")] == [
        10**6,
        1000,
        12000,
        7,
    ]


HOSTILE = [
    f"window = {HUGE}",
    "window = 0x" + "f" * 6000,
    "window = " + "[" * 3000,
    "x = " + "[" * 500 + "]" * 500,
    *(f"{name} = {'9' * 400}" for name in ("timeout", "window", "summary_tokens", "max_cost")),
    "jobs = 99999999999999999999999999",
    "jobs = 2000",
    "timeout = nan",
    "max_cost = inf",
    "[set]\nsoft = 0x" + "f" * 600,
    "[set]\nsoft = [[0x" + "f" * 6000 + "]]",
    "[set]\nsoft = nan",
    "[prices]\ngpt-5-mini = nan",
    "[prices.m]\ninput = inf",
    "[[budgets]]\nmax = 1e99",
    'state_dir = "a\\u0000b"',
    'measures = ["a\\u0000b"]',
    '[[budgets]]\nmeasure = "a\\u0000b"',
]


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: content[:30])
def test_a_hostile_settings_file_is_one_line_of_refusal(content: str) -> None:
    """Huge numbers, deep nesting and NUL bytes are refused where the file is read, with its name."""
    with pytest.raises(SettingsError, match=r"^compactctl\.toml") as caught:
        resolve({}, {}, parse_file(content, "compactctl.toml"), "compactctl.toml")

    assert len(str(caught.value)) < 2000
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["tool = 5", "[tool]\ncompactctl = 5", "tool = []"])
def test_a_pyproject_whose_tool_is_no_table(content: str) -> None:
    """What other tools would refuse too is one line here."""
    with pytest.raises(SettingsError, match="must be a table"):
        parse_file(content, "pyproject.toml")


@pytest.mark.parametrize("name", [setting.name for setting in SETTINGS])
@pytest.mark.parametrize("raw", [HUGE, "nan", "inf", "-1e999", "a\0b"])
def test_hostile_flags(name: str, raw: str) -> None:
    """From a flag or the environment too, such a value is refused or is a mere word."""
    try:
        value = resolve({name: raw}, {})[name]
    except SettingsError:
        return

    assert value == raw or value == (raw,)
    assert "\0" not in raw
