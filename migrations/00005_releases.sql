-- What surrounds a release: offline evals, a person's pause, the audit log, webhooks.
-- +goose Up
-- What an offline suite said of a policy version. The newest report of a suite counts.
create table eval_report (
  id              bigint      primary key generated always as identity,
  version         text        not null,                    -- policy version
  suite           text        not null,
  harness_version text        not null check (harness_version <> ''),
  metrics         jsonb       not null,                    -- name → number
  seeds           jsonb       not null default '[]',
  tasks           jsonb       not null default '[]',       -- per-task results, as the suite reports them
  at              timestamptz not null,
  who             text        not null check (who <> '')
);
create index eval_report_newest on eval_report (version, suite, id);
create trigger append_only before update or delete on eval_report for each row execute function refuse_change();

-- While the loop is paused no cut and no test begins, and nothing is promoted by itself.
create table pause (
  seq    bigint      primary key check (seq > 0),
  paused boolean     not null,
  at     timestamptz not null,
  who    text        not null check (who <> ''),
  why    text        not null check (why <> '')
);
create trigger append_only before update or delete on pause for each row execute function refuse_change();

-- The hold-back: some units stay on a checkpoint that was frozen days ago, and as many are what they are compared with.
create table hold_back (
  seq     bigint      primary key check (seq > 0),
  version text        references policy_version (version), -- null: it ended
  buckets int         not null check (buckets between 0 and 5000), -- of 10,000, in each of the two groups
  at      timestamptz not null,
  who     text        not null check (who <> ''),
  why     text        not null check (why <> ''),
  check ((version is null) = (buckets = 0))
);
create trigger append_only before update or delete on hold_back for each row execute function refuse_change();
create or replace view assignment_ruleset as
  select l.version as live, l.release, e.id as experiment, e.salt, e.coverage / 10000::double precision as coverage,
    e.control, e.candidate, e.starts_at, e.ends_at,
    array(select v.version from policy_version v join candidate_state w on w.candidate = v.candidate
      where w.state in ('rejected', 'held', 'rolled_back', 'invalid', 'timed_out') order by v.ordinal) as withdrawn,
    case when h.version is not null then 'hold-' || h.seq end as hold_back, case when h.version is not null then 'hold-' || h.seq || '-' || h.version end as hold_back_salt,
    h.buckets as hold_back_buckets, h.version as hold_back_version
  from live l left join (experiment e join candidate_state s on s.candidate = e.candidate_id and s.state = 'testing') on true
    left join (select * from hold_back order by seq desc limit 1) h on true;

-- Who did what, when and why, and the numbers that were seen: read from the tables that hold it, none of which loses a
-- row, so that an action and its entry can't differ.
create view audit as
  select 'candidate/' || candidate || '/' || seq as id, at, who, 'candidate.' || state as type, candidate as object, reason as why,
      jsonb_build_object('from', from_state) || case when state = 'submitted' then jsonb_build_object('version', detail->>'version', 'root_digest', detail->>'root_digest') else '{}' end
        || coalesce((select jsonb_build_object('verdict', v.verdict, 'evidence', v.sha256) from verdict v where v.candidate = e.candidate and e.state in ('promoted', 'held', 'rolled_back', 'invalid')), '{}') as detail
    from candidate_event e
  union all
  select 'release/' || seq, at, who, 'release.' || action, version, why,
      jsonb_strip_nulls(jsonb_build_object('former', former, 'candidate', candidate, 'evidence', nullif(evidence, ''),
        'verdict', (select v.verdict from verdict v where v.candidate = release.candidate)))
    from release
  union all
  select 'config/' || seq, adopted_at, 'millrace', 'config.adopted', seq::text, why, '{}' from config
  union all
  select 'pause/' || seq, at, who, case when paused then 'loop.paused' else 'loop.resumed' end, 'loop', why, '{}' from pause
  union all
  select 'hold/' || seq, at, who, case when version is null then 'release.hold_ended' else 'release.held_back' end, coalesce(version, 'hold-back'), why,
      jsonb_build_object('buckets', buckets) from hold_back
  union all
  select 'eval/' || id, at, who, 'evals.reported', version, suite, jsonb_build_object('harness_version', harness_version, 'metrics', metrics) from eval_report
  union all
  select 'cut/' || id || '/packed', packed_at, 'millrace', 'cut.packed', id, cause, jsonb_build_object('rows', rows_taken, 'base', base, 'manifest', manifest_key)
    from cut where state = 'packed'
  union all
  select 'cut/' || id || '/skipped', due_at, 'millrace', 'cut.skipped', id, reason, jsonb_build_object('base', base) from cut where state = 'skipped';

-- Deliveries of audit entries to the endpoints that the operator configured.
create table webhook_endpoint (
  name  text        primary key,
  since timestamptz not null                               -- entries before it are not sent
);
create table webhook_delivery (
  endpoint     text        not null references webhook_endpoint (name),
  event        text        not null,                       -- id in the audit log
  position     bigint      generated always as identity,   -- of what is due at once, the earlier goes first
  type         text        not null,
  body         text        not null,                       -- the same at every attempt
  attempts     int         not null default 0,
  next_at      timestamptz,                                -- null: delivered, or given up
  delivered_at timestamptz,
  status       int,                                        -- of the last answer; null without one
  error        text        not null default '',
  primary key (endpoint, event)
);
create index webhook_due on webhook_delivery (next_at) where next_at is not null;
-- +goose Down
drop table webhook_delivery, webhook_endpoint;
drop view audit, assignment_ruleset;
create view assignment_ruleset as
  select l.version as live, l.release, e.id as experiment, e.salt, e.coverage / 10000::double precision as coverage,
    e.control, e.candidate, e.starts_at, e.ends_at,
    array(select v.version from policy_version v join candidate_state w on w.candidate = v.candidate
      where w.state in ('rejected', 'held', 'rolled_back', 'invalid', 'timed_out') order by v.ordinal) as withdrawn
  from live l left join (experiment e join candidate_state s on s.candidate = e.candidate_id and s.state = 'testing') on true;
drop table hold_back, pause, eval_report;
