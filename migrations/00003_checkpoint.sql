-- The life of a checkpoint: the schedule, cuts, candidates, experiments, verdicts and the live pointer.
-- What is history here can't be changed: a trigger refuses every update and delete of it.
-- +goose Up
-- +goose StatementBegin
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only: nothing in it is changed or deleted', tg_table_name using errcode = 'restrict_violation';
end $$;
-- +goose StatementEnd

create table cut_schedule (
  singleton boolean     primary key default true check (singleton),
  anchor    timestamptz not null,                          -- a slot; the others lie whole intervals away from it
  period_us bigint      not null check (period_us > 0),    -- between two slots, µs
  last_due  timestamptz,                                   -- the slot of the last cut, made or skipped
  asked_by  text                                           -- `cut now`: who asked for one beside the slots
);

create table policy_version (
  version       text        primary key,                   -- as the engine reports it
  ordinal       bigint      not null unique check (ordinal > 0),
  candidate     text        unique,                        -- null: named by `release init`
  registered_at timestamptz not null
);

create table cut (
  id            text        primary key,                   -- cut-N
  number        bigint      not null unique check (number > 0),
  due_at        timestamptz not null,
  cause         text        not null,                      -- "schedule", or who asked
  base          text        not null references policy_version (version),
  topic         text        not null,
  partitions    int         not null check (partitions > 0),
  seed          text        not null,                      -- of the order of the rows
  state         text        not null check (state in ('marking', 'complete', 'packed', 'skipped')),
  reason        text        not null default '',           -- why skipped, or what the cut waits for
  marked_at     timestamptz,                               -- the mark stands in every partition
  completed_at  timestamptz,                               -- every partition has committed past its mark
  packed_at     timestamptz,
  manifest_key  text,
  manifest_sha256 text,
  rows_in_shards  bigint not null default 0,
  rows_taken      bigint not null default 0,
  rows_superseded bigint not null default 0,
  rows_stale      bigint not null default 0,
  rows_capped     bigint not null default 0,
  tokens          bigint not null default 0,               -- trained tokens of the rows taken
  units           bigint not null default 0,
  tokenizer_digest     text not null default '',
  chat_template_digest text not null default '',
  check (rows_in_shards = rows_taken + rows_superseded + rows_stale + rows_capped),  -- no seam
  check (state <> 'skipped' or reason <> ''),
  check (state <> 'packed' or (manifest_key is not null and manifest_sha256 is not null and rows_taken > 0))
);
-- A shard is counted in one cut only: what it was to that cut.
create table cut_shard (
  shard text   primary key references shard (id),
  cut   text   not null references cut (id),
  fate  text   not null check (fate in ('taken', 'superseded', 'stale')),
  rows  bigint not null
);
create index cut_shard_cut on cut_shard (cut);
create table cut_part (
  cut text not null references cut (id), number int not null check (number >= 0),
  key text not null unique, sha256 text not null, bytes bigint not null, rows bigint not null, tokens bigint not null,
  primary key (cut, number)
);

create table candidate (
  id         text        primary key,                      -- cand-N of cut-N
  cut        text        not null unique references cut (id),
  base       text        not null references policy_version (version),
  opened_at  timestamptz not null,
  submit_by  timestamptz not null,                         -- the ladder, frozen when the candidate is opened
  evals_by   timestamptz not null,
  starts_at  timestamptz not null,
  ends_at    timestamptz not null,
  verdict_by timestamptz not null,
  check (submit_by <= evals_by and evals_by <= starts_at and starts_at < ends_at and ends_at <= verdict_by)
);
-- The state of a candidate is the fold of its events: the last event's state. The table of transitions stands in
-- checkpoint/candidate/state.go too; a test compares them.
create table candidate_event (
  candidate  text   not null references candidate (id),
  seq        int    not null check (seq > 0),
  before_seq int    generated always as (nullif(seq - 1, 0)) stored,
  from_state text   not null,
  state      text   not null,
  at         timestamptz not null,
  who        text   not null,
  reason     text   not null default '',
  detail     jsonb  not null default '{}',
  primary key (candidate, seq),
  unique (candidate, seq, state),
  foreign key (candidate, before_seq, from_state) references candidate_event (candidate, seq, state),
  check ((seq = 1) = (from_state = '')),
  constraint candidate_event_transition check (from_state || '>' || state in (
    '>training',
    'training>submitted', 'training>timed_out',
    'submitted>verified', 'submitted>refused', 'submitted>timed_out',
    'refused>submitted', 'refused>timed_out',
    'verified>evaluating', 'verified>timed_out',
    'evaluating>testing', 'evaluating>rejected', 'evaluating>timed_out',
    'testing>promoted', 'testing>held', 'testing>rolled_back', 'testing>invalid', 'testing>timed_out',
    'held>promoted',
    'promoted>superseded', 'promoted>rolled_back',
    'superseded>promoted'))
);
create trigger append_only before update or delete on candidate_event for each row execute function refuse_change();
create view candidate_state as
  select distinct on (candidate) candidate, seq, state, at, who, reason from candidate_event order by candidate, seq desc;

-- Declared before it starts, and never changed.
create table experiment (
  id           text        primary key,                    -- exp-N of cand-N
  candidate_id text        not null unique references candidate (id),
  control      text        not null references policy_version (version),
  candidate    text        not null references policy_version (version),
  salt         text        not null unique,
  coverage     int         not null check (coverage between 1 and 10000), -- of 10,000 buckets, half to each arm
  declared_at  timestamptz not null,
  starts_at    timestamptz not null,
  counts_until timestamptz not null,                       -- a turn counts if it started before this …
  ends_at      timestamptz not null,                       -- … and settled by this
  slow_after_ms double precision not null check (slow_after_ms > 0),
  policy       text        not null,                       -- the gate policy document, as it stood
  check (control <> candidate and declared_at <= starts_at and starts_at < counts_until and counts_until < ends_at)
);
create trigger append_only before update or delete on experiment for each row execute function refuse_change();

-- What a verdict rested on, frozen: it can be computed again from this row alone.
create table verdict (
  candidate  text        primary key references candidate (id),
  experiment text        not null references experiment (id),
  verdict    text        not null check (verdict in ('SHIP', 'HOLD', 'ROLLBACK', 'INVALID')),
  at         timestamptz not null,
  record     text        not null,                         -- JSON: policy, evidence, and the verdict with every test's numbers
  sha256     text        not null                          -- of the record
);
create trigger append_only before update or delete on verdict for each row execute function refuse_change();

create table release (
  seq       bigint      primary key check (seq > 0),
  action    text        not null check (action in ('init', 'promote', 'rollback')),
  version   text        not null references policy_version (version),
  former    text        references policy_version (version),
  candidate text        references candidate (id),         -- what was promoted or rolled back
  at        timestamptz not null,
  who       text        not null check (who <> ''),
  why       text        not null check (why <> ''),
  evidence  text        not null default '',               -- digest of the verdict
  check ((action = 'init') = (former is null))
);
create trigger append_only before update or delete on release for each row execute function refuse_change();
create table publication (release bigint primary key references release (seq), published_at timestamptz not null);
create table live (
  singleton boolean     primary key default true check (singleton),
  version text        not null references policy_version (version),
  release bigint      not null references release (seq),
  since   timestamptz not null
);

-- The whole configuration of the workers, every one that was adopted: the highest seq is in force.
create table config (
  seq        bigint      primary key check (seq > 0),
  document   bytea       not null,                         -- protobuf millrace.events.v1.ConfigAdopted
  why        text        not null,
  adopted_at timestamptz not null,
  written_at timestamptz                                   -- the record stands in every partition
);

-- What ingest assigns from: the live version, the experiment that runs, if any (before starts_at and from ends_at on
-- everybody gets the live version), and the versions that no session keeps: of every candidate that has ended without
-- being live, since nothing serves them any more. A superseded one is kept, as the version before the first promotion
-- is: its sessions run out on it. No row: nothing is live yet.
create view assignment_ruleset as
  select l.version as live, l.release, e.id as experiment, e.salt, e.coverage / 10000::double precision as coverage,
    e.control, e.candidate, e.starts_at, e.ends_at,
    array(select v.version from policy_version v join candidate_state w on w.candidate = v.candidate
      where w.state in ('rejected', 'held', 'rolled_back', 'invalid', 'timed_out') order by v.ordinal) as withdrawn
  from live l left join (experiment e join candidate_state s on s.candidate = e.candidate_id and s.state = 'testing') on true;
-- +goose Down
drop view assignment_ruleset;
drop table config, live, publication, release, verdict, experiment;
drop view candidate_state;
drop table candidate_event, candidate, cut_part, cut_shard, cut, policy_version, cut_schedule;
drop function refuse_change;
