-- What the publisher and the compaction of the ledger remember.
-- +goose Up
create table ledger_file (
  key          text        primary key,                    -- in the object store, below ledger/
  topic        text        not null,
  partition    int         not null,
  hour         timestamptz not null,                       -- log time: the file covers commits of this hour
  first_offset bigint      not null,                       -- of its first source
  last_offset  bigint      not null,                       -- of its last source
  rows         bigint      not null,
  bytes        bigint      not null,
  sha256       text        not null,
  compacted_at timestamptz not null default now(),
  unique (topic, partition, first_offset)
);
alter table shard
  add column published   boolean not null default false,   -- its manifest is in the object store
  add column ledger_file text references ledger_file;      -- of a ledger shard: where its rows are now
create index shard_new_sample on shard (log_time) where kind = 'sample' and number is null;
create index shard_unpublished on shard (policy_version, number) where number is not null and not published;
create index shard_uncompacted on shard (topic, partition, log_time) where kind = 'ledger' and ledger_file is null;
-- +goose Down
drop index shard_uncompacted, shard_unpublished, shard_new_sample;
alter table shard drop column ledger_file, drop column published;
drop table ledger_file;
