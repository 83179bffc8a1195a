-- The ground both areas stand on: who may ask, what was asked once, how often, and what time it is.

create table platform.token (
  id          text primary key,
  hash        bytea not null unique,           -- sha256 of the token; the token itself is shown once and not kept
  name        text not null,
  scopes      text[] not null check (cardinality(scopes) > 0),
  workspace   text,                            -- '*' is all, null is none
  account     text,
  created_at  timestamptz not null,
  created_by  text not null default 'operator',  -- who made it: a token's id, 'operator', or 'bootstrap'
  expires_at  timestamptz,
  revoked_at  timestamptz,
  replaced_by text,                            -- the token that a rotation put in its place
  last_used_at timestamptz,                    -- give or take some minutes
  -- What admin may do concerns the whole installation, so it is never bound to a part of it.
  check ('admin' <> all (scopes) or (workspace is not distinct from '*' and account is not distinct from '*'))
);

-- A browser signed in with a token: it may what the token may, and ends with it. Sessions follow real time.
create table platform.session (
  hash        bytea primary key,               -- sha256 of the cookie, which only the browser keeps
  token_id    text not null references platform.token,
  created_at  timestamptz not null default clock_timestamp(),
  expires_at  timestamptz not null
);
create index session_age on platform.session (expires_at);

-- A sign-in link that works once. The row goes when it is used.
create table platform.sign_in_code (
  hash        bytea primary key,
  token_id    text not null references platform.token,
  expires_at  timestamptz not null             -- real time
);

-- Who asked for what, and who read whose personal data. Append-only.
create table platform.audit (
  id          bigint generated always as identity primary key,
  at          timestamptz not null,
  actor       text not null,                   -- a token's id, 'operator', or 'service'
  action      text not null,                   -- what was done to what: 'token.create', 'refund.request'
  account_id  text,
  target      text not null
);
create index audit_by_target on platform.audit (target, id);
create index audit_by_account on platform.audit (account_id, id);
create index audit_by_actor on platform.audit (actor, id);
create function platform.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% rows are never changed or removed', tg_table_name using errcode = 'restrict_violation';
end $$;
create trigger audit_stays before update or delete on platform.audit
  for each row execute function platform.refuse_change();
create trigger audit_stays_whole before truncate on platform.audit
  for each statement execute function platform.refuse_change();

create table platform.clock (
  one          boolean primary key default true check (one),
  offset_ms    bigint not null default 0,      -- service time minus real time; only ever raised
  moving_to    timestamptz,                    -- where a move under way is going
  moving_until timestamptz                     -- real time; a mover that stops renewing this is dead
);
insert into platform.clock default values;

-- The sliding window of each bucket: the accepted requests of the last 60 s, oldest first.
create table platform.rate_window (
  bucket    text primary key,
  hits      timestamptz[] not null,
  admitted  integer not null                   -- how many the last decision let in
) with (fillfactor = 60);
alter table platform.rate_window alter column hits set storage plain;

create function platform.slide_window(hits timestamptz[], wanted integer, quota integer, span interval, out kept timestamptz[], out admitted integer)
language plpgsql as $$
declare
  -- Read here, under the row lock. Never before the newest hit, should the machine's clock step back.
  moment   timestamptz := greatest(clock_timestamp(), hits[cardinality(hits)]);
  expired  integer := 0;
begin
  while expired < cardinality(hits) and hits[expired + 1] < moment - span loop
    expired := expired + 1;
  end loop;
  kept := hits[expired + 1 :];
  admitted := least(wanted, quota - cardinality(kept));
  if admitted > 0 then
    kept := kept || array_fill(moment, array[admitted]);
  end if;
end $$;

-- Decides many requests together. Buckets are taken in order, so that two deciders never wait for each other in a ring.
create function platform.admit(buckets text[], wanted integer[], quota integer, span interval)
returns table (bucket text, admitted integer, remaining integer, seconds_until_free double precision)
language plpgsql as $$
begin
  -- Off the durable path: a database crash may forget the last moments of counting, and nothing else.
  perform set_config('synchronous_commit', 'off', true);
  return query
    insert into platform.rate_window as w (bucket, hits, admitted)
    select r.bucket, array_fill(clock_timestamp(), array[least(r.wanted, quota)]), r.wanted
    from unnest(buckets, wanted) as r (bucket, wanted)
    order by r.bucket
    on conflict on constraint rate_window_pkey do update
      set (hits, admitted) = (select s.kept, s.admitted from platform.slide_window(w.hits, excluded.admitted, quota, span) as s)
    returning w.bucket, least(w.admitted, quota), quota - cardinality(w.hits),
      extract(epoch from w.hits[1] + span - clock_timestamp())::double precision;
end $$;

-- One row per Idempotency-Key in use, claimed in the transaction of the intent it protects.
create table platform.idempotency_key (
  scope        text not null,                  -- whose key: the token's binding, the method and the path
  key          bytea not null,                 -- keyed hash of the caller's key, which may hold anything
  fingerprint  bytea not null,                 -- keyed hash of the parsed body
  intent       text not null,                  -- id of the recorded work this key stands for
  subject      text,                           -- id of what the work is about; whoever erases that erases the answer
  leased_until timestamptz,                    -- real time; while it lasts the first request is running
  promised     boolean not null default false, -- 202 was answered: whatever comes last is kept, and nothing begins anew
  erased       boolean not null default false, -- the answer is not kept, or no longer; that there was one stays
  status       integer,                        -- of the final answer
  sealed       bytea,                          -- the final answer to the byte, sealed
  created_at   timestamptz not null,           -- service time: keys expire by the moved clock
  primary key (scope, key),
  check (sealed is null or status is not null and not erased)
) with (fillfactor = 70);
create index idempotency_key_age on platform.idempotency_key (created_at);
create index idempotency_key_subject on platform.idempotency_key (subject) where subject is not null;

-- Random keys of the installation itself, made once and sealed. A rotation seals them anew and never changes them.
create table platform.secret (
  name    text primary key,
  sealed  bytea not null
);

-- Every vault key that this database has met, with something sealed by it: another key of the same number is refused.
create table platform.vault_key (
  version  integer primary key,
  probe    bytea not null
);

-- A live worker. Its lease number fences it: once the row is gone, its late settlements are refused.
create table platform.worker (
  id        text primary key,
  lease     bigint generated always as identity,
  lock_key  bigint not null,                   -- session advisory lock held as long as the process lives
  beat_at   timestamptz not null default clock_timestamp()
);

-- How often a job was taken from a dead worker. A job that kills its worker each time must not live for ever.
create table platform.freed_job (
  job_id  bigint primary key,
  times   integer not null
);

-- What only a person can put right. A row stays until the code that raised it sees it gone, or an operator clears it.
create table platform.alarm (
  kind      text not null,                     -- 'amount_differs', 'credentials_refused', …
  subject   text not null,                     -- the id of what it is about
  note      text not null,                     -- one sentence for an operator; no secret, no personal data
  raised_at timestamptz not null,              -- service time, as is last_at
  last_at   timestamptz not null,
  count     integer not null default 1,
  logged    boolean not null default false,    -- whether some process has written it to its log
  primary key (kind, subject)
);
create index alarm_unlogged on platform.alarm (kind) where not logged;

-- Stays empty: a process that found the disk full tries here, and rolls back, whether there is room again.
create table platform.write_probe (bytes bytea not null);
alter table platform.write_probe alter column bytes set storage external;
