-- The second level of the ledger's compaction: the hours of a day become files of the day.
-- +goose Up
alter table ledger_file rename column hour to span_start;  -- log time: the file covers commits from here to the span's end
alter table ledger_file
  add column span     text not null default 'hour' check (span in ('hour', 'day')),
  add column day_file text references ledger_file,         -- of an hour's file: where its rows are now
  add check (day_file is null or span = 'hour'),
  drop constraint ledger_file_topic_partition_first_offset_key,
  add unique (topic, partition, span, first_offset);
alter table ledger_file alter column span drop default;
create index ledger_file_current on ledger_file (topic, partition, span_start) where day_file is null;
-- +goose Down
-- The files of days stay: for an older program they are files of some hour.
update shard s set ledger_file = l.day_file from ledger_file l where l.key = s.ledger_file and l.day_file is not null;
delete from ledger_file where day_file is not null;
drop index ledger_file_current;
alter table ledger_file
  drop constraint ledger_file_topic_partition_span_first_offset_key,
  add unique (topic, partition, first_offset),
  drop column day_file, drop column span;
alter table ledger_file rename column span_start to hour;
