-- The clock of the cuts: by rows for small teams, one cut for a slot, and what a person lets a cut go on without.
-- +goose Up
alter table cut_schedule
  add column at_rows bigint check (at_rows > 0),             -- null: at the slots; else as soon as so many rows wait
  add column most_us bigint,                                 -- by rows: the longest time between two cuts, µs
  add check ((at_rows is null) = (most_us is null)),
  add check (most_us >= period_us);
alter table cut
  add column slot    timestamptz unique,                     -- that the cut was made or skipped for; null: it was asked for
  add column packing jsonb,                                  -- the rules it is packed by, fixed when it is begun
  add column mark_by   timestamptz,                          -- its own steps of the ladder: partitions that have not passed
  add column submit_by timestamptz;                          -- the mark are named, and after that it is of use to nobody
-- Partitions that a person let a cut go on without. Their rows go to the next cut.
create table cut_absence (
  cut       text        not null references cut (id),
  partition int         not null check (partition >= 0),
  who       text        not null check (who <> ''),
  why       text        not null check (why <> ''),
  at        timestamptz not null,
  primary key (cut, partition)
);
create trigger append_only before update or delete on cut_absence for each row execute function refuse_change();
-- +goose Down
drop table cut_absence;
alter table cut drop column submit_by, drop column mark_by, drop column packing, drop column slot;
alter table cut_schedule drop column most_us, drop column at_rows;
