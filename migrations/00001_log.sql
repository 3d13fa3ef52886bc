-- What the distill workers commit: position, files, accounting and A/B sums, in one transaction.
-- +goose Up
create table partition (
  topic            text        not null,
  partition        int         not null,
  owner            text,                                   -- the lease: who, until when
  lease_until      timestamptz,
  epoch            bigint      not null default 0,         -- the fence: every take-over adds one
  committed_offset bigint      not null default 0,         -- the first offset whose effects are not durable yet
  low_watermark    bigint      not null default 0,         -- the first offset of any turn still open
  log_time         timestamptz,                            -- of the last committed record
  state_key        text,                                   -- the state object at committed_offset
  state_sha256     text,
  log_digest       text,                                   -- of the last committed record: is this still the same log?
  turns_opened     bigint      not null default 0,
  turns_open       jsonb       not null default '{}',      -- by policy version; counted again at each take-over
  halted           text,                                   -- why the partition stands still
  primary key (topic, partition)
);
create table worker (name text primary key, seen_at timestamptz not null);

create table shard (
  id             text    primary key,                      -- topic-partition-first-last-digest
  kind           text    not null check (kind in ('sample', 'ledger')),
  topic          text    not null,
  partition      int     not null,
  first_offset   bigint  not null,                         -- of the commit
  last_offset    bigint  not null,
  policy_version text    not null default '',              -- of a sample shard
  key            text    not null unique,                  -- in the object store
  bytes          bigint  not null,
  sha256         text    not null,
  rows           bigint  not null,
  trained_tokens bigint  not null default 0,
  reward_sum     double precision not null default 0,
  reward_spec    text    not null default '',
  log_time       timestamptz not null,                     -- of the commit's last record
  committed_at   timestamptz not null default now(),
  number         bigint,                                   -- the publisher's, per policy version from 1
  unique (policy_version, number)
);
create index shard_unnumbered on shard (committed_at) where number is null;
create index shard_position on shard (topic, partition, last_offset);

create table account_records (
  topic text not null, partition int not null, class text not null, records bigint not null,
  primary key (topic, partition, class)
);
create table account_turns (
  topic text not null, partition int not null, policy_version text not null, arm text not null,
  disposition text not null check (disposition in
    ('rewarded', 'no_tokens', 'censored', 'faulted', 'incomplete', 'mixed_policy', 'withheld')),
  turns bigint not null,
  primary key (topic, partition, policy_version, arm, disposition)
);

-- num and den are fixed-point millionths: floats would depend on the order of commits.
create table metric_sum (
  experiment text not null, metric text not null, arm text not null, bucket int not null check (bucket between 0 and 4095),
  num bigint not null, den bigint not null,
  primary key (experiment, metric, arm, bucket)
);
-- Units with a turn that started in the experiment's window, and those of them with a turn that settled.
create table exposed_unit (
  experiment text not null, unit_hash text not null, arm text not null,
  primary key (experiment, unit_hash, arm)
);
-- Units of which a turn has settled and counts: fewer than exposed ones in one arm means that telemetry was lost there.
create table settled_unit (
  experiment text not null, unit_hash text not null, arm text not null,
  primary key (experiment, unit_hash, arm)
);
create table cut_mark (
  cut text not null, topic text not null, partition int not null,
  "offset" bigint not null,                                -- of the mark: the cut takes what was committed before it
  primary key (cut, topic, partition)
);

-- One fenced leader for each job that must not run twice: every write of the job checks the term.
create table leader (
  name text primary key, owner text not null, term bigint not null, lease_until timestamptz not null
);
create table token (
  sha256 text primary key, name text not null, scopes text[] not null,
  created_at timestamptz not null default now(), revoked_at timestamptz
);
-- +goose Down
drop table token, leader, cut_mark, settled_unit, exposed_unit, metric_sum, account_turns, account_records, shard, worker, partition;
