"""Shards and ledger files in the readers that trainers and analysts use."""

import datetime as dt
import io
import json

import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest

COMPRESSIONS = ["none", "lz4", "zstd"]
STREAM_START = 8  # bytes of a shard before it is a stream: HTTP's "Range: bytes=8-"


@pytest.fixture(params=COMPRESSIONS)
def shard(request, goldens):
    return goldens / f"shard-{request.param}.arrow"


def expected_rows():
    rows = []
    for i in range(4):
        length = 5 + i
        rows.append({
            "sample_id": f"sample-{i}",
            "session_id": "session-ü",
            "turn_id": f"turn-{i // 2}",
            "branch": i % 2,
            "branches_in_turn": 2,
            "origin": "simulated" if i == 1 else "live",
            "group_id": "g" if i == 1 else None,
            "group_index": 0 if i == 1 else None,
            "group_size": 8 if i == 1 else None,
            "input_ids": [10 * i + p for p in range(length)],
            "prompt_length": 2,
            "loss_mask": [0, 0] + [1] * (length - 2),
            "behavior_logprobs": [0.0, 0.0] + [-0.25 * p for p in range(2, length)],
            "steps": [{
                "start": 2, "end": length, "stop_reason": "end_turn", "latency_ms": 12.5,
                "temperature": 1.0, "top_p": 0.5, "top_k": -1, "logprobs_mode": "raw",
            }],
            "policy_version": "base-1",
            "policy_ordinal": 7 if i == 1 else None,
            "unit_hash": "00ff",
            "policy_version_spans": [{"version": "base-1", "start": 2, "end": length}],
            "reward": 0.5 - i,
            "advantage": 0.25,
            "token_advantages": [0.0] * (length - 1) + [-0.5] if i == 1 else None,
            "reward_components": [
                {"name": "retention", "value": 0.0, "weight": 0.7},
                {"name": "thumb", "value": None, "weight": 0.5},
            ],
            "outcome": "completed",
            "harness_version": "h1",
            "tool_schema_digest": "sha256:1",
            "reward_spec": "composer@1",
            "classifier_version": "rules@1",
            "baseline_version": "v0",
            "tokenizer_digest": "sha256:2",
            "chat_template_digest": "sha256:3",
            "sidecar": "s3://routes/1" if i == 1 else None,
            "settled_at": dt.datetime(2026, 3, 1, 12, 0, i, 123456, tzinfo=dt.timezone.utc),
        })
    return rows


def as_utc(rows):
    """Every reader gives its own time zone object; the instants must be equal."""
    return [{**row, "settled_at": row["settled_at"].astimezone(dt.timezone.utc)} for row in rows]


# pyarrow


def test_pyarrow_file(shard):
    table = pa.ipc.open_file(str(shard)).read_all()
    table.validate(full=True)
    assert as_utc(table.to_pylist()) == expected_rows()
    meta = {k.decode(): v.decode() for k, v in table.schema.metadata.items()}
    assert meta == {
        "millrace.schema": "1", "millrace.shard": "events-3-100-199-abcd", "millrace.policy_version": "base-1",
        "millrace.reward_spec": "composer@1", "millrace.topic": "events", "millrace.partition": "3",
        "millrace.first_offset": "100", "millrace.last_offset": "199", "millrace.rows": "4",
    }


def test_pyarrow_memory_map(shard):
    with pa.memory_map(str(shard)) as source:
        assert as_utc(pa.ipc.open_file(source).read_all().to_pylist()) == expected_rows()


def test_pyarrow_stream(shard):
    stream = pa.ipc.open_stream(io.BytesIO(shard.read_bytes()[STREAM_START:]))
    assert as_utc(stream.read_all().to_pylist()) == expected_rows()


def test_pyarrow_dataset(shard):
    table = pa.dataset.dataset(str(shard), format="arrow").to_table(columns=["sample_id", "reward"])
    assert table["reward"].to_pylist() == [0.5, -0.5, -1.5, -2.5]


def test_pyarrow_empty(goldens):
    file = goldens / "empty.arrow"
    assert pa.ipc.open_file(str(file)).read_all().num_rows == 0
    stream = pa.ipc.open_stream(io.BytesIO(file.read_bytes()[STREAM_START:])).read_all()
    assert stream.num_rows == 0
    assert "input_ids" in stream.column_names


def test_schema_is_the_documented_one(goldens, shard):
    columns = json.loads((goldens / "columns.json").read_text())["shard"]
    schema = pa.ipc.open_file(str(shard)).schema
    assert schema.names == [c["Name"] for c in columns]
    for c in columns:
        assert schema.field(c["Name"]).nullable == c["Nullable"], c["Name"]
    assert schema.field("input_ids").type.value_type == pa.int32()
    assert schema.field("loss_mask").type.value_type == pa.uint8()
    assert schema.field("behavior_logprobs").type.value_type == pa.float32()
    assert schema.field("settled_at").type == pa.timestamp("us", tz="UTC")


def test_pyarrow_refuses_a_cut_file(shard):
    body = shard.read_bytes()
    with pytest.raises(pa.ArrowInvalid):
        pa.ipc.open_file(io.BytesIO(body[:-100])).read_all()


# Hugging Face datasets


def test_datasets(shard, tmp_path):
    import datasets

    d = datasets.load_dataset("arrow", data_files=str(shard), split="train", cache_dir=str(tmp_path))
    assert as_utc(d.to_list()) == expected_rows()


def test_datasets_streaming(shard):
    import datasets

    d = datasets.load_dataset("arrow", data_files=str(shard), split="train", streaming=True)
    assert as_utc(list(d)) == expected_rows()


def test_datasets_from_stream(shard, tmp_path):
    import datasets

    stream = tmp_path / "stream.arrow"
    stream.write_bytes(shard.read_bytes()[STREAM_START:])
    assert as_utc(datasets.Dataset.from_file(str(stream)).to_list()) == expected_rows()


# polars


def test_polars(shard):
    import polars as pl

    eager = pl.read_ipc(shard)
    assert as_utc(eager.to_dicts()) == expected_rows()
    lazy = pl.scan_ipc(shard).select(pl.col("loss_mask").list.sum(), "reward").collect()
    assert lazy["loss_mask"].to_list() == [3, 4, 5, 6]


# DuckDB


def test_duckdb_shard(shard):
    import duckdb

    samples = pa.ipc.open_file(str(shard)).read_all()
    assert samples.num_rows == 4
    assert duckdb.sql("select sum(reward), sum(len(input_ids)) from samples").fetchall() == [(-4.0, 26)]


def test_duckdb_ledger(goldens, monkeypatch):
    import duckdb

    monkeypatch.chdir(goldens)
    counts = duckdb.sql("select disposition, count(*) from 'ledger/*.parquet' group by 1").fetchall()
    assert dict(counts) == {"rewarded": 3, "censored": 1, "faulted": 1, None: 1}
    turns = "from 'ledger/*.parquet' where kind = 'turn'"
    assert duckdb.sql(f"select avg(reward), count(reward), count(edits_retention) {turns}").fetchall() == [(0.0, 3, 3)]
    assert duckdb.sql(f"select count(*) {turns} and follow_up_polarity is null").fetchall() == [(5,)]
    components = duckdb.sql(f"select unnest(components, recursive := true) {turns} and turn_id = 'turn-0'").fetchall()
    assert components == [("retention", 0.0), ("thumb", None)]
    types = dict(duckdb.sql("select column_name, column_type from (describe from 'ledger/*.parquet')").fetchall())
    assert types["settled_at"] == "TIMESTAMP WITH TIME ZONE"
    assert types["policy_versions"] == "VARCHAR[]"
    assert types["edits_retention"] == "DOUBLE"


# pandas and pyarrow on the ledger


def test_pandas(goldens, shard):
    import pandas as pd

    frame = pd.read_feather(shard)
    assert list(frame["reward"]) == [0.5, -0.5, -1.5, -2.5]
    ledger = pd.read_parquet(goldens / "ledger" / "part-0.parquet")
    assert ledger["disposition"].tolist() == ["rewarded"] * 3 + ["censored"]
    assert ledger["reward"].isna().tolist() == [False] * 3 + [True]
    assert ledger["settled_at"][0] == pd.Timestamp("2026-03-01T12:20:00.123456Z")


def test_pyarrow_ledger(goldens):
    columns = json.loads((goldens / "columns.json").read_text())["ledger"]
    table = pa.parquet.read_table(goldens / "ledger" / "part-1.parquet")
    assert table.column_names == [c["Name"] for c in columns]
    fault, amendment = table.to_pylist()
    assert fault["kind"] == "turn" and fault["components"] == [] and fault["policy_versions"] == ["base-1"]
    assert fault["ended_at"] is None and fault["reward"] is None
    assert amendment["kind"] == "amendment" and amendment["source"] == "ide" and amendment["disposition"] is None
    assert pa.parquet.read_table(goldens / "ledger" / "part-2.parquet").num_rows == 0


def test_large_ledger(goldens):
    import duckdb

    file = goldens / "large.parquet"
    compression = pa.parquet.read_metadata(file).row_group(0).column(0).compression
    assert compression == "ZSTD"
    query = f"select count(*), count(distinct turn_id), sum(len(components)), count(reward) from '{file}'"
    assert duckdb.sql(query).fetchall() == [(20_000, 20_000, 20_000, 0)]


def test_polars_ledger(goldens):
    import polars as pl

    frame = pl.read_parquet(str(goldens / "ledger" / "*.parquet"))
    assert frame.height == 6
    assert frame["components"].list.len().to_list() == [2, 2, 2, 0, 0, 0]
