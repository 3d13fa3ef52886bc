"""The queries and examples of docs/ledger.md, as they stand there, answer what they say: over the small ledger of
internal/arrowfile/goldens/questions.go, where every number can be counted by hand."""

import datetime as dt
import re

import pytest

from conftest import ROOT

DOCUMENT = (ROOT / "docs" / "ledger.md").read_text()
SECTION = DOCUMENT.split("\n## Ten questions\n")[1]
SET_UP = re.search(r"```sql\n(.*?)```", SECTION, re.S)[1]
QUERIES = {
    int(number): sql
    for number, sql in re.findall(r"^### (\d+)\. [^\n]*\n(?:(?!^### ).)*?```sql\n(.*?)```", SECTION, re.S | re.M)
}

CHECKED, UNCHECKED, UNSEEN, NO_EDIT = "edit, then a check", "edit after the last check", "edit, no check seen", "no edit applied"

ANSWERS = {
    # Before: 10 + 10 + 5 + 5 + 20 calls that could be checked, one fault of each kind; now: 10 + 10, one and four.
    1: (["fault", "before", "now"], [
        ("tools_missing_required", 2.0, 20.0),
        ("tools_invalid_json", 2.0, 5.0),
    ]),
    # Of six dissatisfied: b5 c2 c4 after an unverified edit, b7 after one without checks, b2 c9 after rejected ones.
    2: (["the_turn", "followed_up", "dissatisfied_percent", "of_all_dissatisfied_percent"], [
        (UNCHECKED, 3, 100.0, 50.0),
        (UNSEEN, 2, 50.0, 16.7),
        (CHECKED, 3, 0.0, 0.0),
        (NO_EDIT, 2, 100.0, 33.3),
    ]),
    # Go at 30 s: (.9 + .9 + .8 + 1 + .5 + .8) / 6; at 600 s: (.7 + .9 + 1 + .2 + .4) / 5, of which b1's was partly reverted.
    3: (["language", "horizon_s", "turns", "still_there", "not_reverted"], [
        ("go", 30, 6, 0.817, 1.0), ("go", 120, 5, 0.78, 1.0), ("go", 300, 5, 0.68, 1.0), ("go", 600, 5, 0.64, 0.98),
        ("python", 30, 2, 1.0, 1.0), ("python", 120, 2, 0.95, 1.0), ("python", 300, 2, 0.85, 1.0), ("python", 600, 2, 0.85, 1.0),
    ]),
    4: (["policy_version", "arm", "disposition", "turns", "percent"], [
        ("base-1", "control", "rewarded", 6, 85.7),
        ("base-1", "control", "censored", 1, 14.3),
        ("cand-1", "candidate", "rewarded", 6, 60.0),
        ("cand-1", "candidate", "faulted", 1, 10.0),
        ("cand-1", "candidate", "incomplete", 1, 10.0),
        ("cand-1", "candidate", "mixed_policy", 1, 10.0),
        ("cand-1", "candidate", "no_tokens", 1, 10.0),
    ]),
    # b1 50 + 100 + 100 + 400 + 180 = 830, b2 1490, b5 1040; b3 260, b4 760; b6 160. The p95 of three lies at .9 between
    # the second and the third, that of two at .95.
    5: (["stratum", "turns", "work_median", "work_p95", "wall_s_p95"], [
        ("edit/go/small/live", 3, 1040.0, 1445.0, 88.0),
        ("edit/python/small/live", 2, 510.0, 735.0, 48.0),
        ("ask/go/small/live", 1, 160.0, 160.0, 20.0),
    ]),
    # b3's answer led to b4, which was kept; c8's to c9, which was rejected; nobody answered c3.
    6: (["policy_version", "questions", "answered", "worth_it", "mean_reward"], [
        ("base-1", 1, 1, 1, 0.4),
        ("cand-1", 2, 1, 0, -0.75),
    ]),
    # base-1: .8 −.5 .6 .2 against .6 0 .9 .1: r = .6 / √(.9875 · .54). cand-1: .9 −.9 .25 .14 against 1 .2 .2 .5, where
    # c2's .2 is the mean of two observations: r = .65475 / √(1.6641 · .4275).
    7: (["policy_version", "turns", "mean_reward", "mean_survival", "correlation"], [
        ("base-1", 4, 0.275, 0.4, 0.822),
        ("cand-1", 4, 0.097, 0.475, 0.776),
    ]),
    # Six were kept (b4 b5 b7 c1 c4 c10); b7 and c4 were complained of, b4 lost nothing, b5 had a malformed call.
    8: (["because_of", "turns", "percent_of_kept", "mean_advantage"], [
        ("follow_up", 2, 33.3, -0.125),
        ("baseline", 1, 16.7, -0.1),
        ("invalid_tool_call", 1, 16.7, -0.1),
    ]),
    9: (["day", "turns", "mixed", "mixed_percent", "dropped"], [
        (dt.date(2026, 3, 1), 14, 1, 7.1, 0),
        (dt.date(2026, 3, 2), 3, 1, 33.3, 1),
    ]),
    # base-1: 10 20 30 40 50 70 90 s, and six first tokens; cand-1: 25 35 45 s. c5, which never ended, would be 7,200 s.
    10: (["policy_version", "arm", "turns", "wall_s_median", "wall_s_p95", "first_token_s_median"], [
        ("base-1", "control", 7, 40.0, 84.0, 0.55),
        ("cand-1", "candidate", 3, 35.0, 44.0, 0.5),
    ]),
}


@pytest.fixture
def ledger(goldens, monkeypatch):
    import duckdb

    monkeypatch.chdir(goldens / "questions")
    with duckdb.connect() as connection:
        connection.execute(SET_UP)
        yield connection


def test_every_question_has_its_answer_here():
    assert sorted(QUERIES) == sorted(ANSWERS) == list(range(1, 11))


@pytest.mark.parametrize("number", ANSWERS)
def test_question(number, ledger):
    columns, rows = ANSWERS[number]
    answer = ledger.execute(QUERIES[number])
    assert [column[0] for column in answer.description] == columns
    assert answer.fetchall() == rows


def test_other_origins_and_repeats_are_left_out(ledger):
    assert ledger.execute("select count(*) from turns").fetchall() == [(17,)]
    assert ledger.execute("select count(*) from 'ledger/*.parquet' where kind = 'turn'").fetchall() == [(18,)]
    twice = "select count(*), max(settled_at) < '2026-03-09' from {} where turn_id = 'c2'"
    assert ledger.execute(twice.format("amendments")).fetchall() == [(2, True)]


def test_python_example(goldens, monkeypatch):
    monkeypatch.chdir(goldens / "questions")
    example = re.search(r"```python\n(.*?)```", DOCUMENT, re.S)[1]
    imports, *statements = re.split(r"^(?=turns = )", example, flags=re.M)
    assert len(statements) == 2  # polars, pandas
    for statement in statements:
        names = {}
        exec(imports + statement, names)
        assert names["turns"].shape == (18, 2)
        assert names["turns"]["reward"].sum() == pytest.approx(-0.41)
